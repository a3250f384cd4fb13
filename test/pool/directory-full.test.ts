import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { test } from 'node:test';
import { ResourceExhausted } from '../../src/volume/errors.ts';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { specsOf } from '../contract/pool-contract.ts';
import { openTestDirectoriesOnXfs } from '../support/directory-pool.ts';
import { mounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1n << 20n;

test('a copy of many files for which the disk has no room is RESOURCE_EXHAUSTED, and leaves nothing', async () => {
  using scratch = new Scratch('full');
  const pool = await openTestDirectoriesOnXfs(scratch);
  const { id } = await pool.create(specsOf({ type: 'directory' })('many'));
  {
    await using volume = await mounted(pool, id, scratch);
    // Empty ones take no space but for their inodes, which nobody asks for beforehand.
    execFileSync('sh', ['-c', 'seq 40000 | xargs touch'], { cwd: volume.path });
  }
  execFileSync('sync', ['--file-system', scratch.join('xfs')]);
  const { bavail, bsize } = statfsSync(scratch.join('xfs'), { bigint: true });
  execFileSync('fallocate', ['--length', `${bavail * bsize - 8n * mebibyte}`, scratch.join('xfs', 'of others')]);
  const spec = { id: snapshotIdFor('node', 'many'), name: 'many', sourceId: id, parameters: {} };
  await assert.rejects(pool.takeSnapshots([spec]), (error) => {
    assert.ok(error instanceof ResourceExhausted, `${error}`);
    assert.match(error.message, /has no room for a copy of volume vol-/);
    return true;
  });
  execFileSync('rm', [scratch.join('xfs', 'of others')]);
  await pool.purge();
  assert.equal((await pool.takeSnapshots([spec])).length, 1);
  await pool.close();
});
