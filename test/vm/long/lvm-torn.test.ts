import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import { usedVolume } from '../node/life.ts';
import { type NodeSetup, startNode } from '../node/start-node.ts';

const setup: NodeSetup = {
  config: 'pools: { fast: { kind: lvm, volumeGroup: vg0, sickAfter: 10m } }\ndefaultPool: fast\n',
  pools: ['fast'],
  disks: [
    { name: 'first', sizeGiB: 1 },
    { name: 'second', sizeGiB: 1 },
  ],
  prepare: 'lvm vgcreate --yes vg0 /dev/vdb /dev/vdc',
};

/** LVM's area for metadata: a header of one sector, and behind it the texts that were written one after the other. */
const area = 'bs=512 count=2039 conv=notrunc,fsync status=none';
const textsOf = (disk: string) => `of=${disk} seek=9 oflag=direct ${area}`;
const complaints = 'lvm vgs vg0 2>&1 >/dev/null | grep -ci "bad metadata text on" || true';

describe('T06: a volume group after a power cut that left half a change on one of its disks', () => {
  test('is the same on both disks again once the driver has started', async (t) => {
    await using started = await startNode(t, setup);
    const { node } = started;
    const { vm } = node;
    const volume = await usedVolume(node, 'fast');
    await leaveKeepsake(node, volume);
    await node.kill();
    // The header of the next change reached the disk, and its text did not.
    await vm.run(`dd if=/dev/vdb of=/data/texts skip=9 iflag=direct ${area}`);
    await vm.run('lvm lvcreate --yes --extents 1 --zero n --wipesignatures n --activate n --name foreign vg0');
    await vm.run(`dd if=/data/texts ${textsOf('/dev/vdb')}`);
    assert.notEqual(await vm.run(complaints), '0\n');

    await node.start();
    assert.equal(await vm.run(complaints), '0\n');
    assert.match(
      node.log(),
      /the disks of the volume group differed in what they say of it, as after a power cut, and agree again/,
    );
    assert.match(await vm.run('lvm lvs --noheadings -o lv_name vg0 --devices /dev/vdb'), /foreign/);
    await assertKeepsake(node, volume);
    await volume.leave();
    await volume.delete();
  });
});
