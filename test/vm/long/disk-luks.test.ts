import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { linkOf, prepareLinks } from '../disk-kind/links.ts';
import { capacityBytes } from '../faults/pool-sight.ts';
import { EncryptedClaim } from '../luks/encrypted-claim.ts';
import { checksumOf, contentOf } from '../machine/content.ts';
import { startNode } from '../node/start-node.ts';

const mebibyte = 1n << 20n;
const dataBytes = 64n * mebibyte;
const patienceMs = 600_000;
const file = { seed: 3, sizeBytes: 300_000 };
const newKey = () => ({ key: randomBytes(32).toString('base64') });
const wordsThere = 'a sentence that is written into the volume and must not be found on the disk';

describe('an encrypted volume that is a disk', () => {
  test('X01: has what its header leaves, lives through a driver that is killed, and leaves nothing behind', async (t) => {
    await using started = await startNode(t, {
      config: `expansion: controller\npools: { default: { kind: disk, device: ${linkOf('own')}, sickAfter: 10m } }\n`,
      pools: ['default'],
      disks: [{ name: 'own', sizeGiB: 68 / 1024, bus: 'scsi' }],
      prepare: `${prepareLinks(1)} && modprobe dm_crypt`,
    });
    const { node } = started;
    const key = newKey();
    const { maximum_volume_size } = await node.client.controller.GetCapacity({ parameters: { encryption: 'luks2' } });
    assert.equal(maximum_volume_size?.value, dataBytes - 16n * mebibyte);
    const claim = new EncryptedClaim(node, 'claim', 40n * mebibyte);
    await claim.create(key);
    await claim.create(key);
    await assert.rejects(claim.stage(newKey()), /FAILED_PRECONDITION/);
    await claim.stage(key);
    await claim.publish();
    const path = `${claim.targetPath}/file`;
    await node.vm.task('write', { ...file, path });
    await node.vm.run(`echo '${wordsThere}' >${claim.targetPath}/words && sync -f ${claim.targetPath}/words`);
    const shownMiB = Number(await node.vm.run(`df --output=size --block-size=1M ${claim.targetPath} | tail -n 1`));
    assert.ok(shownMiB > 36 && shownMiB <= 48, `${shownMiB} MiB`);
    await claim.expand(44n * mebibyte, key);
    await assert.rejects(claim.expand(64n * mebibyte, key), /OUT_OF_RANGE/);
    await node.kill();
    await node.start();
    assert.deepEqual(await node.vm.task('checksums', [{ path, sizeBytes: file.sizeBytes }]), [
      checksumOf(contentOf(file.seed, file.sizeBytes)),
    ]);
    await claim.unpublish();
    await claim.unstage();
    // Past what memory has of the disk: the devices that show it keep that, however old it is.
    const disk = `dd if=$(readlink ${linkOf('own')}) bs=1M iflag=direct status=none`;
    assert.equal(await node.vm.run(`${disk} | grep -c -a '${wordsThere}' || true`), '0\n');
    await claim.delete();
    await eventually(async () => assert.equal(await capacityBytes(node, 'default'), dataBytes), patienceMs);
    await node.vm.run(`${disk} skip=2 count=64 | cmp -n $((64 << 20)) - /dev/zero`);
  });
});
