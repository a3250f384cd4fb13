import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { SeededRandom } from '../../crash/seeded-random.ts';
import { eventually } from '../../support/eventually.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import { capacityBytes, conditionOf } from '../faults/pool-sight.ts';
import { type GuestNode, nodeId } from '../node/guest-node.ts';
import { newVolume, usedVolume } from '../node/life.ts';
import { type NodeSetup, startNode } from '../node/start-node.ts';

const mebibyte = 1n << 20n;
const sizeBytes = 32n * mebibyte;
const patienceMs = 600_000;
const makeGroup = 'lvm vgcreate --yes';

const setup = {
  config: `
defaultPool: fast
pools:
  fast: { kind: lvm, volumeGroup: vg0, sickAfter: 10m }
  later: { kind: lvm, volumeGroup: vg1, sickAfter: 10m }
`,
  pools: ['fast'],
  disks: [
    { name: 'first', sizeGiB: 2 },
    { name: 'second', sizeGiB: 2 },
  ],
  prepare: `${makeGroup} vg0 /dev/vdb`,
} as const;

/** Serial numbers are names; the second is on a bus from which it can be pulled. */
const pullable: NodeSetup = {
  config: 'pools: { fast: { kind: lvm, volumeGroup: vg0, sickAfter: 10m } }\ndefaultPool: fast\n',
  pools: ['fast'],
  disks: [
    { name: 'first', sizeGiB: 3 },
    { name: 'pulled', sizeGiB: 2, bus: 'scsi' },
  ],
  prepare: `modprobe -a virtio_scsi sd_mod && until [ -b /dev/sda ]; do sleep 0.1; done && ${makeGroup} vg0 /dev/vdb /dev/sda`,
};

describe('a node with pools in volume groups', () => {
  test('a life of volumes, through restarts, a reboot, and a group that appears late', async (t) => {
    await using started = await startNode(t, setup);
    const { node } = started;
    const [mounted, block] = [await usedVolume(node, 'fast', 'ext4'), await usedVolume(node, 'fast', 'block')];
    for (const volume of [mounted, block]) await leaveKeepsake(node, volume);
    for (const volume of [mounted, block]) await volume.expand(2n * sizeBytes);
    assert.equal(BigInt(await node.vm.run(`blockdev --getsize64 ${block.targetPath}`)), 2n * sizeBytes);
    await assert.rejects(
      mounted.snapshot('in-use'),
      /\(lvm\) copies only volumes that are not in use: stop its pod for that time/,
    );
    await mounted.leave();
    await mounted.snapshot('at-rest');
    const restored = newVolume(node, 'fast');
    await restored.create(4n * sizeBytes, snapshotIdFor(nodeId, 'at-rest'));
    await mounted.use();
    await restored.use();
    await assertKeepsake(node, restored);

    await node.vm.run(`${makeGroup} vg1 /dev/vdc`);
    await eventually(async () => assert.ok((await capacityBytes(node, 'later')) > 0n), patienceMs);

    await node.kill();
    await node.start();
    for (const volume of [mounted, block, restored]) await assertKeepsake(node, volume);
    await restored.leave();
    await restored.modify({ undelete: '1h' });
    await restored.delete();
    await eventually(
      async () => assert.equal((await node.command(`trash restore ${restored.id}`)).code, 0),
      patienceMs,
    );
    await restored.use();
    await assertKeepsake(node, restored);

    await node.kill();
    await node.vm.reboot();
    await node.mount();
    assert.equal(await node.vm.run('ls /sys/block | grep dm- || true'), '', 'nothing is active after the boot');
    await node.start();
    const volumes = [mounted, block, restored];
    for (const volume of volumes) {
      await volume.use();
      await assertKeepsake(node, volume);
    }
    await says(node, 'pools', /fast \(default\) +lvm +copy +open +3 [^\n]* volume group vg0\n/);
    await says(node, 'doctor', /ok +LVM +2\.03\.[0-9]+: the one beside the driver, without udev\n/);
    for (const volume of volumes) {
      await volume.leave();
      await volume.delete();
    }
    // What is wiped is active until it is gone.
    await eventually(async () => assert.equal(await node.vm.run('ls /sys/block | grep -c dm-'), '2\n'), patienceMs);
  });

  test('a logical volume of somebody else is adopted as docs/lvm.md has it, used, and released', async (t) => {
    const config = 'pools: { fast: { kind: lvm, volumeGroup: vg0, sickAfter: 10m } }\ndefaultPool: fast\n';
    await using started = await startNode(t, { ...setup, config });
    const { node } = started;
    await node.vm.run('lvm lvcreate --yes --size 64m --name pvc-1a2b vg0 && mkfs.ext4 -q /dev/vg0/pvc-1a2b');
    const adopted = await node.command(
      'adopt /dev/vg0/pvc-1a2b --pool fast --claim shop/data-db-0 --class lvm --retain',
    );
    assert.equal(adopted.code, 0, adopted.stderr);
    for (const line of ['fsType: ext4', 'storage: "64Mi"', 'storageClassName: lvm', 'name: data-db-0']) {
      assert.ok(adopted.stdout.includes(line), adopted.stdout);
    }
    await says(node, 'volumes', /adopted\.shop\.data-db-0|shop\/data-db-0/);
    const released = await node.command('release shop/data-db-0');
    assert.equal(released.code, 0, released.stderr);
    assert.match(released.stdout, /is no volume any more: its data lies at \/dev\/vg0\/pvc-1a2b\./);
    await node.vm.run('lvm lvchange --activate y vg0/pvc-1a2b && blkid -p /dev/vg0/pvc-1a2b | grep ext4');
  });

  test('a disk that is pulled hurts the volumes that lie on it, and they are whole when it is put back', async (t) => {
    await using started = await startNode(t, pullable);
    const { node } = started;
    const disk = started.disks.find(({ name }) => name === 'pulled') ?? assert.fail();
    const stays = await usedVolume(node, 'fast');
    // From here on only the other disk has room.
    await node.vm.run('lvm lvcreate --yes --extents 100%FREE --name foreign vg0 /dev/vdb');
    const goes = await usedVolume(node, 'fast');
    assert.match(await node.vm.run('lvm lvs -o lv_name,devices vg0'), new RegExp(`${goes.id}\\S+ +/dev/sda`));
    for (const volume of [stays, goes]) await leaveKeepsake(node, volume);

    await node.vm.pull(disk, new SeededRandom(1));
    await eventually(async () => {
      const { abnormal, message } = await conditionOf(node, goes.id);
      assert.equal(abnormal, true);
      assert.match(message, /A disk of its volume group is missing/);
    }, patienceMs);
    assert.equal((await conditionOf(node, stays.id)).abnormal, false);
    await leaveKeepsake(node, stays);
    await assert.rejects(
      newVolume(node, 'fast').create(sizeBytes),
      /a disk of volume group vg0 is missing .* Put it back/,
    );
    await says(node, 'doctor', /1 of its 2 disks are missing/);

    await node.vm.putBack(disk);
    await goes.leave();
    await eventually(async () => assert.equal((await conditionOf(node, goes.id)).abnormal, false), patienceMs);
    await goes.use();
    for (const volume of [stays, goes]) await assertKeepsake(node, volume);
  });
});

/** A command that looks gives up a disk that is silent for long, as this one may be on a busy machine. */
async function says(node: GuestNode, words: string, expected: RegExp): Promise<void> {
  await eventually(async () => assert.match((await node.command(words)).stdout, expected), patienceMs);
}
