import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { attachDevice } from '../../src/pool/attached-device.ts';
import { Question } from '../../src/pool/supervisor/question.ts';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { fill, useUpDirectories } from '../support/full.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const reservedBytes = 16 << 20;
const inodes = 16;

describe('a disk that somebody else has filled to the last block', () => {
  for (const fsType of ['xfs', 'ext4']) {
    test(`${fsType}: volumes can still be deleted and published, and the figures are honest`, async () => {
      using scratch = new Scratch('full');
      const directory = mountDisk(scratch, fsType);
      const open = () =>
        openTestPool(scratch, { location: { type: 'directory', path: `${directory}/pool` }, undeleteSeconds: 3600 });
      let pool = await open();
      const { id } = await pool.create(volumeSpec('v'));
      assert.ok((await pool.capacity()).availableBytes > 0n);
      assert.equal((await pool.condition(id)).abnormal, false);
      assert.ok(!(await pool.usage()).isNearlyFull);

      fill(`${directory}/foreign`);
      assert.equal((await pool.capacity()).availableBytes, 0n);
      await assert.rejects(pool.create(volumeSpec('w')), { code: 'RESOURCE_EXHAUSTED' });
      await eventually(async () => {
        const { abnormal, message } = await pool.condition(id);
        assert.ok(abnormal);
        assert.match(message, /nearly full/);
        assert.ok((await pool.usage()).isNearlyFull);
      });
      // Full is not sick.
      await pool.checkHealth(new DiskQueue('health', 1), new Question());
      await pool.setPublication(id, { nodeId: 'node', mode: 'SINGLE_NODE_WRITER', readonly: false });
      await pool.setPublication(id, undefined);
      // Whoever deletes meets a disk as full as it was.
      fill(`${directory}/foreign`);
      await pool.remove(id);
      assert.deepEqual(
        (await pool.trash()).map(({ record }) => record.id),
        [id],
      );
      assert.ok(statSync(`${directory}/pool/ballast`).size < reservedBytes, 'some of the reserve was needed');

      fill(`${directory}/foreign`);
      await pool.close();
      pool = await open();
      assert.equal((await pool.trash()).length, 1);

      execFileSync('rm', [`${directory}/foreign`]);
      await pool.checkHealth(new DiskQueue('health', 1), new Question());
      assert.equal(statSync(`${directory}/pool/ballast`).size, reservedBytes);
      await pool.create(volumeSpec('w'));
      await pool.close();
    });
  }
});

describe('a full disk whose reserve somebody removed', () => {
  for (const fsType of ['xfs', 'ext4']) {
    test(`${fsType}: a volume that cannot be marked as deleted is not unlinked; the reserve comes back`, async () => {
      using scratch = new Scratch('full');
      const directory = mountDisk(scratch, fsType);
      const location = { type: 'directory', path: `${directory}/pool` } as const;
      const pool = await openTestPool(scratch, { location, undeleteSeconds: 3600 });
      const { id } = await pool.create(volumeSpec('v'));
      const publication = { nodeId: 'node', mode: 'SINGLE_NODE_WRITER', readonly: false } as const;
      execFileSync('rm', ['--recursive', `${directory}/pool/ballast`, `${directory}/pool/spares`]);
      fill(`${directory}/foreign`);
      useUpDirectories(`${directory}/pool/volumes/${id}`);
      await assert.rejects(pool.remove(id), { code: 'ENOSPC' });
      await assert.rejects(pool.setPublication(id, publication), { code: 'ENOSPC' });
      assert.ok(existsSync(`${directory}/pool/volumes/${id}/data`));
      assert.equal((await pool.find(id))?.id, id);

      execFileSync('rm', ['--recursive', `${directory}/foreign`]);
      await pool.checkHealth(new DiskQueue('health', 1), new Question());
      assert.equal(statSync(`${directory}/pool/ballast`).size, reservedBytes);
      assert.equal(readdirSync(`${directory}/pool/spares`).length, inodes);
      await pool.remove(id);
      await pool.restore(id);
      await pool.close();
    });
  }
});

describe('a pool without its trash', () => {
  test('forgets no volume and no snapshot that is there: neither can go', async () => {
    using scratch = new Scratch('full');
    const pool = await openTestPool(scratch);
    const { id } = await pool.create(volumeSpec('v', { content: { type: 'block' } }));
    const snapshotId = snapshotIdFor('node', 's');
    // Now the driver has the directory open, and may not notice that it is gone.
    await pool.remove((await pool.create(volumeSpec('first'))).id);
    await eventually(() => assert.deepEqual(readdirSync(scratch.join('pool/trash')), []));
    await pool.takeSnapshots([{ id: snapshotId, name: 's', sourceId: id, parameters: {} }]);
    execFileSync('rmdir', [scratch.join('pool/trash')]);
    await assert.rejects(pool.remove(id), { code: 'ENOENT' });
    await assert.rejects(pool.removeSnapshot(snapshotId), { code: 'ENOENT' });
    mkdirSync(scratch.join('pool/trash'));
    assert.equal((await pool.find(id))?.id, id);
    assert.equal((await pool.findSnapshot(snapshotId))?.id, snapshotId);
    await pool.removeSnapshot(snapshotId);
    await pool.remove(id);
    assert.equal(await pool.find(id), undefined);
    await pool.close();
  });
});

describe('the host of a backing file that somebody else has filled to the last block', () => {
  test('volumes can still be deleted and published, the pool opened; no data is lost', async () => {
    using scratch = new Scratch('full');
    const host = mountDisk(scratch, 'ext4');
    const path = `${host}/pool.img`;
    const heldBytes = () => statSync(`${path}.ballast`).blocks * 512;
    const open = () =>
      openTestPool(scratch, { location: { type: 'file', path, sizeBytes: 2n << 30n }, undeleteSeconds: 3600 });
    let pool = await open();
    assert.equal(heldBytes(), reservedBytes);
    const { id } = await pool.create(volumeSpec('v'));
    const used = await pool.create(volumeSpec('w'));
    const mounted = scratch.join('mounted');
    mkdirSync(mounted);
    {
      const { devicePath, release } = await attachDevice(pool, used.id, { persistent: false });
      execFileSync('mount', [devicePath, mounted]);
      await release();
    }
    writeFileSync(`${mounted}/kept`, 'before', { flush: true });

    fill(`${host}/foreign`);
    const { availableBytes, totalBytes } = await pool.capacity();
    assert.deepEqual([availableBytes, totalBytes], [0n, 0n]);
    await assert.rejects(pool.create(volumeSpec('x')), { code: 'RESOURCE_EXHAUSTED' });
    // What templates have left free in the pool is there to be written, until it is trimmed.
    execFileSync('fstrim', [scratch.join('data', 'pools', 'test')]);
    fill(`${host}/foreign`);
    await eventually(async () => assert.match((await pool.condition(id)).message, /nearly full/));
    assert.throws(() => writeFileSync(`${mounted}/lost`, Buffer.alloc(32 << 20), { flush: true }));
    await pool.checkHealth(new DiskQueue('health', 1), new Question());
    await pool.setPublication(id, { nodeId: 'node', mode: 'SINGLE_NODE_WRITER', readonly: false });
    await pool.setPublication(id, undefined);
    await pool.remove(id);
    assert.ok(heldBytes() < reservedBytes, 'some of the reserve was needed');

    // What XFS has not found room for is in its log: to be mounted again it needs some.
    fill(`${host}/foreign`);
    execFileSync('umount', [mounted]);
    // That of the disk and that of the pool.
    await eventually(() => assert.equal(scratch.loops().length, 2));
    await pool.close();
    assert.equal(scratch.loops().length, 1);
    pool = await open();
    assert.deepEqual(
      (await pool.list(undefined, undefined)).map(({ name }) => name),
      ['w'],
    );
    assert.deepEqual(
      (await pool.trash()).map(({ record }) => record.id),
      [id],
    );

    execFileSync('rm', [`${host}/foreign`]);
    await pool.checkHealth(new DiskQueue('health', 1), new Question());
    assert.equal(heldBytes(), reservedBytes);
    await pool.restore(id);
    await pool.create(volumeSpec('x'));
    const { devicePath, release } = await attachDevice(pool, used.id, { persistent: false });
    execFileSync('mount', [devicePath, mounted]);
    await release();
    assert.equal(readFileSync(`${mounted}/kept`, 'utf8'), 'before');
    execFileSync('umount', [mounted]);
    await pool.close();
  });
});

describe('a filesystem whose inodes somebody else has used up', () => {
  test('volumes can still be deleted, to be brought back, and published; the figures are honest', async () => {
    using scratch = new Scratch('inodes');
    const directory = mountDisk(scratch, 'ext4', ['-N', '400']);
    const location = { type: 'directory', path: `${directory}/pool` } as const;
    const pool = await openTestPool(scratch, { location, undeleteSeconds: 3600 });
    const volumes = [await pool.create(volumeSpec('v')), await pool.create(volumeSpec('w'))];
    assert.equal(readdirSync(`${directory}/pool/spares`).length, inodes);
    assert.ok((await pool.capacity()).availableBytes > 0n);

    mkdirSync(`${directory}/foreign`);
    assert.throws(() => {
      for (let index = 0; ; index++) writeFileSync(`${directory}/foreign/${index}`, '');
    }, /ENOSPC/);
    assert.equal((await pool.capacity()).availableBytes, 0n);
    await assert.rejects(pool.create(volumeSpec('x')), { code: 'RESOURCE_EXHAUSTED', message: /no inodes left/ });
    for (const { id } of volumes) {
      assert.equal((await pool.condition(id)).abnormal, false);
      await pool.setPublication(id, { nodeId: 'node', mode: 'SINGLE_NODE_WRITER', readonly: false });
      await pool.setPublication(id, undefined);
      await pool.remove(id);
    }
    assert.equal((await pool.trash()).length, volumes.length);

    execFileSync('rm', ['--recursive', `${directory}/foreign`]);
    await pool.checkHealth(new DiskQueue('health', 1), new Question());
    assert.equal(readdirSync(`${directory}/pool/spares`).length, inodes);
    await pool.create(volumeSpec('x'));
    for (const { id } of volumes) await pool.restore(id);
    await pool.close();
  });
});

/** 512 MiB of a filesystem that others use too. */
function mountDisk(scratch: Scratch, fsType: string, options: readonly string[] = []): string {
  const image = scratch.join('disk.img');
  const directory = scratch.join('disk');
  mkdirSync(directory);
  execFileSync('truncate', ['--size=512M', image]);
  execFileSync(`mkfs.${fsType}`, ['-q', ...options, image]);
  execFileSync('mount', ['-o', 'loop', image, directory]);
  return directory;
}
