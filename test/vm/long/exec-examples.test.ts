import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import { bootVirtualMachine } from '../machine/virtual-machine.ts';

const servers = fileURLToPath(new URL('../exec/servers.sh', import.meta.url));

test('the examples of programs mount an SMB share and attach an export of nbdkit', async (t) => {
  const directory = await bundlePrograms('exec', ['examples-in-guest']);
  using scratch = new Scratch('vm');
  using disk = new VolatileDisk(scratch, { name: 'target', sizeBytes: 2 * 2 ** 30 });
  await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
  await vm.run('mkfs.ext4 -q /dev/vda && mkdir -p /target && mount /dev/vda /target');
  await vm.run(`sh ${servers} install ${vm.execDirectory}`);
  const command = `${process.execPath} ${directory}examples-in-guest.mjs`;
  const { code, stderr, stdout } = await vm.attempt(command, { timeoutMs: 1200_000 });
  assert.equal(code, 0, `${stdout}\n${stderr}\n${vm.console()}`);
  t.diagnostic(/^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200));
});
