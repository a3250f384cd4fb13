import { describe, test } from 'node:test';
import { FaultyDisk } from './faults/faulty-disk.ts';
import { assertKeepsake, leaveKeepsake } from './faults/keepsake.ts';
import { Neighbour } from './faults/neighbour.ts';
import { SickPool } from './faults/sick-pool.ts';
import { usedVolume } from './node/life.ts';
import { startNode } from './node/start-node.ts';

const disk = new FaultyDisk('sick', '/dev/vdc');
const config = `
defaultPool: well
pools:
  well: { device: /dev/vdb, sickAfter: 10m }
  sick: { device: ${disk.path} }
`;
const disks = [
  { name: 'well', sizeGiB: 2 },
  { name: 'sick', sizeGiB: 2 },
];

describe('T07: a disk that hangs hurts only itself', () => {
  test('its calls fail with a reason, the others go on, and it comes back by itself', async (t) => {
    await using started = await startNode(t, { config, pools: ['well', 'sick'], disks, prepare: disk.making });
    const { node } = started;
    const volume = await usedVolume(node, 'sick');
    await leaveKeepsake(node, volume);
    const sick = new SickPool(node, 'sick', [volume]);
    const neighbour = await Neighbour.of(node, 'well');

    await disk.hang(node.vm);
    // The first call waits for the disk when it is found to be sick; none waits for ever.
    await sick.refuses(/in quarantine .* has not answered for 20 s/);
    await neighbour.meanwhile();
    await sick.assertInQuarantine();

    await disk.mend(node.vm);
    await sick.recovers();
    await assertKeepsake(node, volume);
    await volume.leave();
    await volume.delete();
    await neighbour.assertUndisturbed(t);
  });
});
