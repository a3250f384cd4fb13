import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { TreeSizes } from '../../src/pool/space/tree-sizes.ts';
import { snapshotIdFor, type VolumeId } from '../../src/volume/id.ts';
import { specsOf } from '../contract/pool-contract.ts';
import { openTestDirectoriesOnXfs } from '../support/directory-pool.ts';
import { eventually } from '../support/eventually.ts';
import { mounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1n << 20n;
/** Metadata of XFS, and what it preallocates. */
const tolerance = 64n * mebibyte;
const spec = specsOf({ type: 'directory' });

const available = async (pool: Pool) => (await pool.capacity()).availableBytes;

async function write(pool: Pool, scratch: Scratch, id: VolumeId, megabytes: number): Promise<void> {
  await using volume = await mounted(pool, id, scratch);
  const to = [`of=${volume.path}/data`, 'bs=1M', `count=${megabytes}`, 'conv=fsync'];
  execFileSync('dd', ['if=/dev/urandom', ...to], { stdio: 'pipe' });
}

async function snapshot(pool: Pool, name: string, sourceId: VolumeId): Promise<void> {
  await pool.takeSnapshots([{ id: snapshotIdFor('node', name), name, sourceId, parameters: {} }]);
}

function isAbout(actual: bigint, expected: bigint): void {
  const difference = actual > expected ? actual - expected : expected - actual;
  assert.ok(difference < tolerance, `${actual / mebibyte} MiB, expected about ${expected / mebibyte} MiB`);
}

describe('GC04: space of a directory pool', () => {
  for (const quota of ['whenAvailable', 'none'] as const) {
    test(`a snapshot of one volume makes no other one count twice (quota: ${quota})`, async () => {
      using scratch = new Scratch('directory-space');
      let pool = await openTestDirectoriesOnXfs(scratch, { quota });
      const full = await pool.create({ ...spec('full'), sizeBytes: 1024n * mebibyte });
      const empty = await pool.create({ ...spec('empty'), sizeBytes: 64n * mebibyte });
      await write(pool, scratch, full.id, 600);
      const reopen = async () => {
        await pool.close();
        pool = await openTestDirectoriesOnXfs(scratch, { quota });
      };
      await reopen();
      const before = await available(pool);
      await snapshot(pool, 'of the empty one', empty.id);
      await reopen();
      isAbout(await available(pool), before);
      await pool.close();
    });
  }

  test('a volume owns what it takes again when its last snapshot is gone', async () => {
    using scratch = new Scratch('directory-space');
    const pool = await openTestDirectoriesOnXfs(scratch);
    const { id } = await pool.create({ ...spec('v'), sizeBytes: 1024n * mebibyte });
    await write(pool, scratch, id, 600);
    const before = await available(pool);
    await snapshot(pool, 's', id);
    assert.ok(before - (await available(pool)) > 500n * mebibyte, 'its blocks may all have to be written once more');
    await pool.removeSnapshot(snapshotIdFor('node', 's'));
    await pool.purge();
    isAbout(await available(pool), before);
    await pool.close();
  });

  test('a snapshot of a volume that is gone makes others share no more than it takes', async () => {
    using scratch = new Scratch('directory-space');
    let pool = await openTestDirectoriesOnXfs(scratch);
    const full = await pool.create({ ...spec('full'), sizeBytes: 1024n * mebibyte });
    const gone = await pool.create({ ...spec('gone'), sizeBytes: 64n * mebibyte });
    await write(pool, scratch, full.id, 600);
    await write(pool, scratch, gone.id, 1);
    await snapshot(pool, 's', gone.id);
    await pool.remove(gone.id);
    await pool.purge();
    const before = await available(pool);
    await pool.close();
    pool = await openTestDirectoriesOnXfs(scratch);
    isAbout(await available(pool), before);
    await pool.close();
  });

  test('the trash makes room while another volume has a snapshot', async () => {
    using scratch = new Scratch('directory-space');
    const options = { undeleteSeconds: 3600 };
    let pool = await openTestDirectoriesOnXfs(scratch, options);
    const deleted = await pool.create({ ...spec('deleted'), sizeBytes: 3072n * mebibyte });
    const empty = await pool.create({ ...spec('empty'), sizeBytes: 64n * mebibyte });
    await write(pool, scratch, deleted.id, 2000);
    await snapshot(pool, 's', empty.id);
    await pool.close();
    pool = await openTestDirectoriesOnXfs(scratch, options);
    await pool.remove(deleted.id);
    await pool.create({ ...spec('new'), sizeBytes: 2500n * mebibyte });
    await pool.close();
  });
});

describe('GC04: space of a directory pool without quota', () => {
  const quota = 'none';

  test('what a volume took or gave back while it was in use counts once it is idle', async () => {
    using scratch = new Scratch('directory-space');
    const pool = await openTestDirectoriesOnXfs(scratch, { quota });
    const { id } = await pool.create({ ...spec('v'), sizeBytes: 1024n * mebibyte });
    const empty = await available(pool);
    await write(pool, scratch, id, 600);
    await eventually(async () => isAbout(await available(pool), empty));
    {
      await using volume = await mounted(pool, id, scratch);
      rmSync(join(volume.path, 'data'));
    }
    execFileSync('sync', ['--file-system', scratch.join('xfs')]);
    await eventually(async () => isAbout(await available(pool), empty));
    await pool.close();
  });

  test('a volume of more files than can be counted in a second counts, and gives room from the trash', async () => {
    using scratch = new Scratch('directory-space');
    const options = { quota, undeleteSeconds: 3600 } as const;
    let pool = await openTestDirectoriesOnXfs(scratch, options);
    const { id } = await pool.create({ ...spec('v'), sizeBytes: 3072n * mebibyte });
    const empty = await available(pool);
    {
      await using volume = await mounted(pool, id, scratch);
      const many = 'mkdir d; cd d; seq 60000 | xargs touch; dd if=/dev/zero of=data bs=1M count=2000 conv=fsync';
      execFileSync('sh', ['-c', many], { cwd: volume.path, stdio: 'pipe' });
    }
    await pool.close();
    pool = await openTestDirectoriesOnXfs(scratch, options);
    await eventually(async () => isAbout(await available(pool), empty));
    await pool.remove(id);
    await pool.create({ ...spec('new'), sizeBytes: 3000n * mebibyte });
    await pool.close();
  });

  test('files that come and go do not make the count be forgotten', async () => {
    using scratch = new Scratch('directory-space');
    const queue = new DiskQueue('test', 2);
    const tree = scratch.join('tree');
    mkdirSync(tree);
    for (let at = 0; at < 500; at++) writeFileSync(join(tree, `kept-${at}`), 'x'.repeat(4096));
    const sizes = new TreeSizes(queue, () => undefined);
    const wholeBytes = await sizes.of(tree);
    assert.ok(wholeBytes >= 500n * 4096n);
    const churn = setInterval(() => {
      for (let at = 0; at < 20; at++) writeFileSync(join(tree, `gone-${at}`), '');
      setTimeout(() => {
        for (let at = 0; at < 20; at++) rmSync(join(tree, `gone-${at}`), { force: true });
      }, 1);
    }, 2);
    try {
      for (let at = 0; at < 10; at++) {
        await sizes.recount(tree);
        assert.ok((await sizes.of(tree)) >= 500n * 4096n);
      }
    } finally {
      clearInterval(churn);
      await sizes.close();
    }
  });
});
