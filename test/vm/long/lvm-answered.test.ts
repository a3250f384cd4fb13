import { describe, test } from 'node:test';
import { cutAtAnswers } from '../answered/cut-at-answers.ts';
import { deeds as allDeeds } from '../answered/deed.ts';

/** Those of a pool that has its disk. */
const deeds = allDeeds.filter(({ on }) => on === undefined);
const pools = deeds.map(({ name }) => `  ${name}: { kind: lvm, volumeGroup: vg-${name}, sickAfter: 10m }`);
const groups = deeds.map(({ name }, index) => {
  const device = `/dev/vd${String.fromCharCode('b'.charCodeAt(0) + index)}`;
  return `lvm vgcreate --yes vg-${name} ${device}`;
});

describe('T06: the power goes at the moment of an answer, in volume groups', () => {
  test('what was answered is there, though the disk kept only what it was told to', async (t) => {
    const setup = {
      config: `expansion: node\ndefaultPool: ${deeds[0]?.name}\npools:\n${pools.join('\n')}\n`,
      pools: deeds.map(({ name }) => name),
      disks: deeds.map(({ name }) => ({ name, sizeGiB: 1 })),
      prepare: [...groups, 'sync'].join(' && '),
    };
    await cutAtAnswers(t, { deeds, setup, afterBoot: 'true' });
  });
});
