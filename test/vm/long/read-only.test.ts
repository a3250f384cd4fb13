import { describe, test } from 'node:test';
import { assertOutlived, leaveKeepsake } from '../faults/keepsake.ts';
import { Neighbour } from '../faults/neighbour.ts';
import { SickPool } from '../faults/sick-pool.ts';
import { faultyDisk as disk, twoDisks } from '../faults/two-pools.ts';
import { usedVolume } from '../node/life.ts';
import { startNode } from '../node/start-node.ts';

const location = '/srv/sick';
const config = `
defaultPool: well
pools:
  well: { device: /dev/vdb, sickAfter: 10m }
  sick: { directory: ${location}/pool }
`;
const mount = `mount -o errors=remount-ro ${disk.path} ${location}`;
const prepare = `${disk.making} && mkfs.ext4 -q -J size=8 ${disk.path} && mkdir -p ${location} && ${mount}`;

describe('T07: a filesystem that the kernel makes read-only after an error hurts only its own pool', () => {
  test('until its operator has checked it and mounted it anew', async (t) => {
    await using started = await startNode(t, { config, pools: ['well', 'sick'], disks: twoDisks, prepare });
    const { node } = started;
    const volumes = [await usedVolume(node, 'sick'), await usedVolume(node, 'sick', 'block')];
    for (const volume of volumes) await leaveKeepsake(node, volume);
    const sick = new SickPool(node, 'sick', volumes);
    const neighbour = await Neighbour.of(node, 'well');

    await disk.fail(node.vm);
    await sick.refuses(/in quarantine/);
    await neighbour.meanwhile();
    await sick.assertInQuarantine();

    await disk.mend(node.vm);
    await sick.refuses(/has become read-only \(EROFS\)/);
    // As docs/operations.md has it: stop the pods, unmount, check, mount.
    for (const volume of volumes) await volume.leave();
    // The driver looks at it now and then.
    await node.vm.run(`until umount ${location}; do sleep 0.1; done`, { timeoutMs: 60_000 });
    await node.vm.run(`e2fsck -f -p ${disk.path} || [ $? -eq 1 ]; ${mount}`);
    await sick.recovers();
    await assertOutlived(node, volumes);
    await neighbour.assertUndisturbed(t);
  });
});
