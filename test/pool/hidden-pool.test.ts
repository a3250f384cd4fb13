import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Layout } from '../../src/pool/records/layout.ts';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { attachDisk, sparseFile } from '../support/disk.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

describe('what the driver does not see in its place', () => {
  test('is not forgotten if it is the whole pool that is not there: unmounted by hand, say', async () => {
    using scratch = new Scratch('hidden');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 512));
    const open = () => openTestPool(scratch, { location: { type: 'device', path } });
    const pool = await open();
    const [kept, changed] = [await pool.create(volumeSpec('kept')), await pool.create(volumeSpec('changed'))];
    const snapshot = { id: snapshotIdFor('node', 'cut'), name: 'cut', sourceId: kept.id, parameters: {} };
    await pool.takeSnapshots([snapshot]);
    // Its directories are open from here on, and can be synced wherever they are.
    await pool.remove((await pool.create(volumeSpec('gone'))).id);
    execFileSync('umount', ['--lazy', scratch.join('data/pools/test')]);
    await assert.rejects(pool.remove(kept.id), { code: 'ENOENT' });
    await assert.rejects(pool.modify(changed.id, { undeleteSeconds: 5 }), { code: 'ENOENT' });
    await assert.rejects(pool.removeSnapshot(snapshot.id), { code: 'ENOENT' });
    assert.equal((await pool.list(undefined, undefined)).length, 2);
    assert.equal((await pool.listSnapshots(undefined, undefined)).length, 1);
    await pool.close();
    const again = await open();
    assert.equal((await again.list(undefined, undefined)).length, 2);
    await again.remove(kept.id);
    assert.equal(await again.find(kept.id), undefined);
    await again.close();
  });

  test('GV04: of a pool whose backing file somebody has taken away the condition of its volumes tells', async () => {
    using scratch = new Scratch('hidden');
    const path = scratch.join('pool.img');
    const pool = await openTestPool(scratch, { location: { type: 'file', path, sizeBytes: 512n << 20n } });
    const { id } = await pool.create(volumeSpec('v'));
    renameSync(path, `${path}.away`);
    const { abnormal, message } = await pool.condition(id);
    assert.equal(abnormal, true);
    assert.match(message, /disk .* cannot be read/);
    await pool.close();
  });

  test('a snapshot that somebody has put back by hand is not removed by who makes one of that name', async () => {
    using scratch = new Scratch('hidden');
    const layout = new Layout(scratch.join('pool'));
    const pool = await openTestPool(scratch);
    const { id: sourceId } = await pool.create(volumeSpec('source'));
    const snapshot = { id: snapshotIdFor('node', 'cut'), name: 'cut', sourceId, parameters: {} };
    mkdirSync(layout.snapshot(snapshot.id));
    writeFileSync(layout.snapshotData(snapshot.id), 'from a backup');
    await assert.rejects(pool.takeSnapshots([snapshot]), { code: 'ENOTEMPTY' });
    assert.ok(existsSync(layout.snapshotData(snapshot.id)));
    await pool.close();
  });
});
