import assert from 'node:assert/strict';
import { eventually } from '../../support/eventually.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import { programs, withNfsServer } from './guest.ts';
import { type NfsServerProgram, nfsServer } from './server.ts';

const patienceMs = 300_000;

/** A driver that is cut off from the export loses its lock to another client, and finds out. */
export async function lockGoesOver(server: NfsServerProgram): Promise<void> {
  const directory = await bundlePrograms('nfs', programs);
  await withNfsServer(async (vm) => {
    const program = `${process.execPath} ${directory}lock-in-guest.mjs`;
    await vm.run(nfsServer(vm, 'second-client'));
    // Another host name: by that a server knows its clients.
    const other = `nsenter --net=/run/netns/nfs2 unshare --uts sh -c 'hostname other && exec "$@"' sh`;
    await vm.run(`(${other} ${program} 10.78.0.1 hold /tmp/state >/tmp/holder.log 2>&1 &)`);
    const state = () => vm.run('cat /tmp/state 2>/dev/null || cat /tmp/holder.log');
    await eventually(async () => assert.equal(await state(), 'held'), patienceMs);
    await vm.run(`${program} 10.77.0.1 refused`);
    await vm.run(nfsServer(vm, 'cut-second'));
    await vm.run(`${program} 10.77.0.1 take`);
    await vm.run(nfsServer(vm, 'heal-second'));
    await eventually(async () => assert.match(await state(), /its lock was lost/), patienceMs);
  }, server);
}
