/** Runs in the virtual machine: one of two NVMe targets goes away. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { disconnectNvme, nvmeSubsystem } from '../../../src/kernel/block/nvme.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { nvmeTcpNodeKind } from '../../../src/pool/kinds/nvme-tcp/kind.ts';
import { eventually } from '../../support/eventually.ts';
import { describeGone, goingAddress } from '../network-disk/gone.ts';

const script = fileURLToPath(new URL('../../../test/vm/nvme/target.sh', import.meta.url));
const both = {
  going: { nqn: 'nqn.2026-01.dev.holdfast:going', address: goingAddress, port: '1' },
  staying: { nqn: 'nqn.2026-01.dev.holdfast:staying', address: '127.0.0.1', port: '2' },
};
const uuids = { going: '11111111-1111-4111-8111-111111111111', staying: '22222222-2222-4222-8222-222222222222' };

function target(name: keyof typeof both, ...words: string[]): void {
  const { address, nqn, port } = both[name];
  const env = { ...process.env, TARGET_ADDRESS: address, TARGET_NQN: nqn, TARGET_PORT: port };
  execFileSync('sh', [script, ...words], { env });
}

const contextOf = (name: keyof typeof both) => ({
  ...{ kind: 'nvme-tcp', nqn: both[name].nqn, portals: `${both[name].address}:4420`, uuid: uuids[name] },
  ...{ ctrlLossTmo: '600', reconnectDelay: '1' },
});
const controllers = () => Object.values(both).flatMap(({ nqn }) => nvmeSubsystem(nqn).controllers);

describeGone({
  kind: nvmeTcpNodeKind,
  going: contextOf('going'),
  alsoGoing: { ...contextOf('going'), uuid: '33333333-3333-4333-8333-333333333333' },
  staying: contextOf('staying'),
  make: () => {
    target('going', 'heal');
    for (const name of ['going', 'staying'] as const) {
      target(name, 'make', `/target/${name}`);
      target(name, 'namespace', `/target/${name}`, '1', uuids[name], 'xfs');
    }
  },
  target: (words) => target('going', words),
  nothingLeft: async (harness) => {
    assert.deepEqual([harness.mounts(), harness.notes()], [[], []]);
    await eventually(() => assert.deepEqual(controllers(), []));
  },
  endSessions: async () => {
    for (const controller of controllers()) await disconnectNvme(new DiskQueue('after', 1), controller);
  },
});
