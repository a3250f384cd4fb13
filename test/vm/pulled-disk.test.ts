import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../crash/seeded-random.ts';
import { assertOutlived, leaveKeepsake } from './faults/keepsake.ts';
import { Neighbour } from './faults/neighbour.ts';
import { SickPool } from './faults/sick-pool.ts';
import { usedVolume } from './node/life.ts';
import { startNode } from './node/start-node.ts';

/** Its serial number is its name. */
const link = '/dev/disk/by-id/scsi-pulled';
const config = `
defaultPool: well
pools:
  well: { device: /dev/vdb, sickAfter: 10m }
  pulled: { device: ${link} }
`;
const disks = [
  { name: 'well', sizeGiB: 2 },
  { name: 'pulled', sizeGiB: 2, bus: 'scsi' },
] as const;

/** What udev does: the link leads to the disk with that serial number, if there is one. Prints where it is. */
const linkDisk = [
  `rm -f ${link} && mkdir -p /dev/disk/by-id`,
  'for disk in /sys/block/sd*; do grep -qs pulled "$disk/device/vpd_pg80" && node=/dev/$(basename $disk); done',
  `[ -b "$node" ] && ln -s "$node" ${link} && echo "$node"`,
].join('\n');
const prepare = `modprobe -a virtio_scsi sd_mod && until [ -b /dev/sda ]; do sleep 0.1; done\n${linkDisk}`;

describe('T07: a disk that is pulled hurts only itself', () => {
  test('put back under another name, it comes back as it was, once the pods that used it are gone', async (t) => {
    await using started = await startNode(t, { config, pools: ['well', 'pulled'], disks, prepare });
    const { node } = started;
    const disk = started.disks.find(({ name }) => name === 'pulled') ?? assert.fail();
    const volumes = [await usedVolume(node, 'pulled'), await usedVolume(node, 'pulled', 'block')];
    for (const volume of volumes) await leaveKeepsake(node, volume);
    const sick = new SickPool(node, 'pulled', volumes);
    const neighbour = await Neighbour.of(node, 'well');

    await node.vm.pull(disk, new SeededRandom(1));
    await node.vm.attempt(linkDisk);
    await sick.refuses(/in quarantine .*(EIO|ENODEV|ENXIO|no block device)/);
    await neighbour.meanwhile();
    await sick.assertInQuarantine();
    await sick.refuses(/is not a block device of this node/);

    await node.vm.putBack(disk);
    const path = await node.vm.run(`until ${inOneShell(linkDisk)}; do sleep 0.1; done`);
    assert.notEqual(path.trim(), '/dev/sda', 'the name is held by what was mounted from it');
    await sick.refuses(/Stop the pods/);
    for (const volume of volumes) await volume.leave();
    await sick.recovers();
    await assertOutlived(node, volumes);
    await neighbour.assertUndisturbed(t);
  });
});

function inOneShell(script: string): string {
  return `(\n${script}\n)`;
}
