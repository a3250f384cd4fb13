/** Runs in the virtual machine: one of two iSCSI targets goes away. */
import { iscsiNodeKind } from '../../../src/pool/kinds/iscsi/kind.ts';
import { describeGone, goingAddress } from '../network-disk/gone.ts';
import { directory, endSessions, nothingLeft, targetOf } from './guest.ts';

const both = {
  going: { iqn: 'iqn.2026-01.dev.holdfast:going', address: goingAddress },
  staying: { iqn: 'iqn.2026-01.dev.holdfast:staying', address: '127.0.0.1' },
};
const target = (name: keyof typeof both, ...words: string[]) => targetOf(both[name], ...words);
const contextOf = (name: keyof typeof both) => ({
  ...{ kind: 'iscsi', iqn: both[name].iqn, portals: `${both[name].address}:3260`, lun: '1', replacementTimeout: '600' },
});
const iqns = Object.values(both).map(({ iqn }) => iqn);

describeGone({
  kind: iscsiNodeKind,
  going: contextOf('going'),
  alsoGoing: { ...contextOf('going'), lun: '2' },
  staying: contextOf('staying'),
  make: () => {
    target('going', 'heal');
    for (const name of ['going', 'staying'] as const) {
      target(name, 'make');
      target(name, 'backing', directory, name, 'xfs');
      target(name, 'map', '1', name);
    }
  },
  target: (words) => void target('going', words),
  nothingLeft: (harness) => nothingLeft(harness, iqns),
  endSessions: () => endSessions(iqns),
});
