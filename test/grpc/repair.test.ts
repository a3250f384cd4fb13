import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { VolumeContent } from '../../src/volume/capability.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool } from '../support/image-pool.ts';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import type { TestVolume } from '../support/node-volume.ts';

const ext4: VolumeContent = { type: 'mount', fsType: 'ext4' };
const xfs: VolumeContent = { type: 'mount', fsType: 'xfs' };
const btrfs: VolumeContent = { type: 'mount', fsType: 'btrfs' };

let harness: NodeHarness;

before(async () => {
  harness = await NodeHarness.open('repair');
});
after(() => harness[Symbol.asyncDispose]());

describe('a damaged filesystem in a pool that can clone', () => {
  before(() =>
    harness.restart({
      openPool: () =>
        openTestPool(harness.scratch, {
          dataDirectory: harness.scratch.join('clones'),
          location: { type: 'file', path: harness.scratch.join('pool.img'), sizeBytes: 4n << 30n },
        }),
    }),
  );

  test('ext4 that has recorded errors: repaired when staged, nothing lost, the original kept as it was', async () => {
    const volume = await used('flagged', ext4);
    run('debugfs', '-w', '-R', 'set_super_value free_blocks_count 7', imageOf(volume));
    run('debugfs', '-w', '-R', 'set_super_value state 2', imageOf(volume));
    const damaged = checksum(imageOf(volume));

    await volume.stage();
    await volume.publish();
    assert.equal(readFileSync(join(volume.target, 'data'), 'utf8'), 'kept');
    const [original] = await harness.pool.trash();
    assert.match(original?.record.name ?? '', /^flagged before its repair of 20/);
    const { volume_condition } = await volume.stats();
    assert.equal(volume_condition?.abnormal, true);
    assert.match(volume_condition?.message ?? '', new RegExp(`repaired.*${original?.record.id}`));
    assert.match(run('dumpe2fs', '-h', imageOf(volume)), /Filesystem state: +clean/);
    await volume.down();
    // Nothing is repaired twice.
    await volume.stage();
    assert.equal((await harness.pool.trash()).length, 1);
    await volume.down();

    assert.ok(original !== undefined);
    await harness.pool.restore(original.record.id);
    assert.equal(checksum(join(root(), 'volumes', original.record.id, 'data')), damaged);
    await harness.pool.remove(original.record.id);
    await volume.stage();
    assert.equal((await volume.stats(volume.staging)).volume_condition?.abnormal, false);
    await volume.down();
  });

  test('ext4 that the kernel refuses to mount: its backups are used', async () => {
    const volume = await used('descriptors', ext4);
    const blockBytes = Number(/Block size: +(\d+)/.exec(run('dumpe2fs', '-h', imageOf(volume)))?.[1]);
    overwrite(imageOf(volume), blockBytes === 1024 ? 2048 : blockBytes, Buffer.alloc(64, 0xa5));
    await volume.stage();
    await volume.publish();
    assert.equal(readFileSync(join(volume.target, 'data'), 'utf8'), 'kept');
    await volume.down();
  });

  // A disk may write one of the two sectors of a superblock and lose the other with its power.
  for (const mebibytes of [16n, 32n, 300n]) {
    test(`T02: ext4 of ${mebibytes} MiB whose superblock is torn: whole again, with what was fsynced last`, async () => {
      const volume = await used(`torn-${mebibytes}`, ext4, mebibytes << 20n);
      await volume.stage();
      await volume.publish();
      const file = openSync(join(volume.target, 'late'), 'w');
      writeSync(file, 'fsynced');
      fsyncSync(file);
      closeSync(file);
      run('sync', imageOf(volume));
      const atTheCut = readFileSync(imageOf(volume));
      await volume.down();
      writeFileSync(imageOf(volume), atTheCut);
      // s_wtime lies in the first sector, s_checksum in the second.
      overwrite(imageOf(volume), 1024 + 0x30, Buffer.from([1, 2, 3, 4]));

      await volume.stage();
      await volume.publish();
      assert.equal(readFileSync(join(volume.target, 'data'), 'utf8'), 'kept');
      assert.equal(readFileSync(join(volume.target, 'late'), 'utf8'), 'fsynced');
      await volume.down();
    });
  }

  for (const [what, mebibytes, offsetBytes] of [
    ['that its copy contradicts', 32n, 0x28],
    ['with another seed of checksums, and without a copy', 16n, 0x270],
    ['with another number of inodes, and without a copy', 16n, 0x01],
  ] as const) {
    test(`a superblock ${what}: not taken for torn`, async () => {
      const volume = await used(`rotten-${mebibytes}-${offsetBytes}`, ext4, mebibytes << 20n);
      overwrite(imageOf(volume), 1024 + offsetBytes, Buffer.from([1]));
      await leftAsItIs(volume, /could not be repaired on a clone/);
    });
  }

  test('xfs that the kernel refuses to mount', async () => {
    const volume = await used('needsrepair', xfs, 320n << 20n);
    // NEEDSREPAIR, beside what it has.
    const print = run('xfs_db', '-c', 'sb 0', '-c', 'print features_incompat', imageOf(volume));
    const features = Number(/= (0x[0-9a-f]+)/.exec(print)?.[1]) | 0x10;
    run('xfs_db', '-x', '-c', 'sb 0', '-c', `write features_incompat 0x${features.toString(16)}`, imageOf(volume));
    await volume.stage();
    await volume.publish();
    assert.equal(readFileSync(join(volume.target, 'data'), 'utf8'), 'kept');
    assert.equal((await volume.stats()).volume_condition?.abnormal, true);
    await volume.down();
  });

  test('btrfs is not repaired but reported, and left as it is', async () => {
    const volume = await used('btrfs', btrfs, 160n << 20n);
    overwrite(imageOf(volume), 1 << 20, Buffer.alloc(62 << 20, 0xa5));
    await leftAsItIs(volume, /btrfs/);
  });

  test('what cannot be repaired is left as it is, and nothing is put in the trash', async () => {
    const volume = await used('hopeless', ext4, 64n << 20n, ['-O', '^metadata_csum']);
    // A feature that neither the kernel nor e2fsck knows.
    overwrite(imageOf(volume), 1024 + 0x60, Buffer.from([0xc2, 0x02, 0x00, 0x40]));
    await leftAsItIs(volume, /could not be repaired on a clone/);
  });

  async function leftAsItIs(volume: TestVolume, words: RegExp): Promise<void> {
    const trashed = (await harness.pool.trash()).length;
    const damaged = checksum(imageOf(volume));
    await rejects(volume.stage(), 'DATA_LOSS', words);
    await rejects(volume.stage(), 'DATA_LOSS', words);
    assert.equal(checksum(imageOf(volume)), damaged);
    assert.equal((await harness.pool.trash()).length, trashed);
    await volume.unstage();
  }

  function root(): string {
    return harness.scratch.join('clones', 'pools', 'test');
  }

  function imageOf({ id }: TestVolume): string {
    return join(root(), 'volumes', id, 'data');
  }
});

describe('a damaged filesystem in a pool that cannot clone', () => {
  test('is refused, with the command to run', async () => {
    await harness.restart();
    const volume = await used('copied', ext4);
    const image = harness.imageOf(volume);
    run('debugfs', '-w', '-R', 'set_super_value state 2', image);
    const message = await rejects(volume.stage(), 'DATA_LOSS', /e2fsck -f \//);
    run('bash', '-c', `${/e2fsck -f \S+$/.exec(message)?.[0]} -y || test $? -lt 4`);
    await volume.stage();
    await volume.publish();
    assert.equal(readFileSync(join(volume.target, 'data'), 'utf8'), 'kept');
    await volume.down();
  });
});

/** A volume with a file in it that is on the disk. */
async function used(
  name: string,
  content: VolumeContent,
  sizeBytes = 64n << 20n,
  mkfsArguments: string[] = [],
): Promise<TestVolume> {
  const volume = await harness.volume(name, content, { sizeBytes, mkfsArguments });
  await volume.stage();
  await volume.publish();
  writeFileSync(join(volume.target, 'data'), 'kept');
  await volume.down();
  // What a device that lingers has in memory, nobody would see damaged.
  await eventually(async () => assert.deepEqual(await harness.pool.attached(volume.id), []));
  return volume;
}

function checksum(path: string): string {
  return run('sha256sum', path).slice(0, 64);
}

function overwrite(path: string, offsetBytes: number, bytes: Buffer): void {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, offsetBytes);
  closeSync(file);
}
