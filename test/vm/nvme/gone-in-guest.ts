/** Runs in the virtual machine: one of two NVMe targets goes away. */
import { nvmeTcpNodeKind } from '../../../src/pool/kinds/nvme-tcp/kind.ts';
import { describeGone, goingAddress } from '../network-disk/gone.ts';
import { directory, endConnections, nothingLeft, targetOf, uuid } from './guest.ts';

const both = {
  going: { nqn: 'nqn.2026-01.dev.holdfast:going', address: goingAddress, port: '1' },
  staying: { nqn: 'nqn.2026-01.dev.holdfast:staying', address: '127.0.0.1', port: '2' },
};
const uuids = { going: uuid, staying: '22222222-2222-4222-8222-222222222222' };

const target = (name: keyof typeof both, ...words: string[]) => targetOf(both[name], ...words);
const contextOf = (name: keyof typeof both) => ({
  ...{ kind: 'nvme-tcp', nqn: both[name].nqn, portals: `${both[name].address}:4420`, uuid: uuids[name] },
  ...{ ctrlLossTmo: '600', reconnectDelay: '1' },
});
const nqns = Object.values(both).map(({ nqn }) => nqn);

describeGone({
  kind: nvmeTcpNodeKind,
  going: contextOf('going'),
  alsoGoing: { ...contextOf('going'), uuid: '33333333-3333-4333-8333-333333333333' },
  staying: contextOf('staying'),
  make: () => {
    target('going', 'heal');
    for (const name of ['going', 'staying'] as const) {
      target(name, 'make', `${directory}/${name}`);
      target(name, 'namespace', `${directory}/${name}`, '1', uuids[name], 'xfs');
    }
  },
  target: (words) => void target('going', words),
  nothingLeft: (harness) => nothingLeft(harness, nqns),
  endSessions: () => endConnections(nqns),
});
