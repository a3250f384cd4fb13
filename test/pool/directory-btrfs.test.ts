import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { openTestDirectoriesOn } from '../support/directory-pool.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const content = { type: 'directory' } as const;
const id = volumeIdFor('node', 'test', 'a');

test('a volume with a file that is not copied on write has no snapshot, and the call names the file', async () => {
  using scratch = new Scratch('btrfs');
  await using pool = await opened(scratch);
  await pool.catalog.create(volumeSpec('a', { content }));
  const db = join(pool.data, 'db');
  mkdirSync(db);
  execFileSync('chattr', ['+C', db]);
  writeFileSync(join(db, 'ibdata'), 'x'.repeat(8192));
  const snapshot = { id: snapshotIdFor('node', 's'), name: 's', sourceId: id, parameters: {} };
  await assert.rejects(pool.catalog.takeSnapshots([snapshot]), (error) => {
    assert.ok(error instanceof FailedPrecondition && error.message.length <= 200, `${error}`);
    assert.match(error.message, /its file db\/ibdata is not copied on write \(chattr \+C\)/);
    return true;
  });
});

test('a volume with a read-only subvolume is deleted whole', async () => {
  using scratch = new Scratch('btrfs');
  await using pool = await opened(scratch);
  await pool.catalog.create(volumeSpec('a', { content }));
  execFileSync('btrfs', ['subvolume', 'create', join(pool.data, 'sub')]);
  writeFileSync(join(pool.data, 'sub', 'file'), 'x');
  execFileSync('btrfs', ['subvolume', 'snapshot', '-r', join(pool.data, 'sub'), join(pool.data, 'kept')]);
  await pool.catalog.remove(id);
  await pool.catalog.purge(id);
  await eventually(() => assert.deepEqual(readdirSync(join(scratch.join('btrfs'), 'pool', 'trash')), []));
});

async function opened(scratch: Scratch) {
  const catalog = await openTestDirectoriesOn('btrfs', scratch);
  const data = join(scratch.join('btrfs'), 'pool', 'volumes', id, 'data');
  return { catalog, data, [Symbol.asyncDispose]: () => catalog.close() };
}
