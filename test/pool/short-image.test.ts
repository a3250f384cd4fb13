import assert from 'node:assert/strict';
import { rmSync, statSync, truncateSync } from 'node:fs';
import { describe, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { Pools } from '../../src/pool/pools.ts';
import { DataLoss } from '../../src/volume/errors.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { groupIdFor, memberIdFor, snapshotIdFor, type VolumeId } from '../../src/volume/id.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const shortBytes = 1 << 20;
const block = { content: { type: 'block' } } as const;
const call = { note: () => undefined };

/** Pools that share blocks, and pools that copy. */
const locations = {
  'XFS in a file': { open: openInFile, root: (scratch: Scratch) => scratch.join('data/pools/test') },
  'a directory': { open: openInDirectory, root: (scratch: Scratch) => scratch.join('pool') },
};

for (const [location, { open, root }] of Object.entries(locations)) {
  describe(`an image that is shorter than its record, ${location}`, () => {
    test('GV04 CS12: nothing is made from it, nothing makes it larger, and the condition tells', async () => {
      using scratch = new Scratch('short');
      const pool = await open(scratch);
      const { id, sizeBytes } = await pool.create(volumeSpec('v', block));
      const { id: whole } = await pool.create(volumeSpec('whole', block));
      const snapshotId = snapshotIdFor('node', 's');
      await pool.takeSnapshots([{ id: snapshotId, name: 's', sourceId: id, parameters: {} }]);
      const image = `${root(scratch)}/volumes/${id}/data`;
      truncateSync(image, shortBytes);

      const cut = { id: snapshotIdFor('node', 't'), name: 't', sourceId: id, parameters: {} };
      await refused(pool.takeSnapshots([cut]), id);
      const group = { id: groupIdFor('node', 'g'), name: 'g', parameters: {} };
      const members = [whole, id].map((sourceId) => ({ ...cut, id: memberIdFor(group.id, sourceId), sourceId }));
      await refused(pool.takeSnapshots(members, group), id);
      await refused(pool.create(volumeSpec('clone', block), { type: 'volume', id }), id);
      await refused(pool.grow(id, sizeBytes * 2n), id);
      await refused(pool.grow(id, sizeBytes), id);
      for (const provisioning of ['thick', 'thin'] as const) await refused(pool.modify(id, { provisioning }), id);
      assert.equal(statSync(image).size, shortBytes);
      assert.match((await pool.condition(id)).message, /shorter/);
      assert.equal((await pool.listSnapshots(undefined, undefined)).length, 1);

      // What was cut before is whole.
      await pool.create(volumeSpec('before', block), { type: 'snapshot', id: snapshotId });
      truncateSync(`${root(scratch)}/snapshots/${snapshotId}/data`, shortBytes);
      await refused(pool.create(volumeSpec('after', block), { type: 'snapshot', id: snapshotId }), snapshotId);
      rmSync(`${root(scratch)}/snapshots/${snapshotId}/data`);
      await refused(pool.create(volumeSpec('after', block), { type: 'snapshot', id: snapshotId }), snapshotId);
      await refused(rangesOf(pool, snapshotId), snapshotId);
      assert.equal((await pool.list(undefined, undefined)).length, 3);
      for (const volume of [id, whole]) await pool.remove(volume);
      await pool.close();
    });

    test('comes back from the trash, and whoever brings it back is told', async () => {
      using scratch = new Scratch('short');
      const pool = await open(scratch);
      const pools = new Pools(new Map([['test', async () => pool]]), 'test');
      await pools.open();
      const admin = adminService({ nodeId: 'node', pools, objects: new ObjectQueue() });
      const image = (id: VolumeId) => `${root(scratch)}/volumes/${id}/data`;
      const kept = { ...block, undeleteSeconds: 3600 };
      for (const [name, hurt, words] of [
        ['short', (path: string) => truncateSync(path, shortBytes), /shorter/],
        ['missing', (path: string) => rmSync(path), /missing/],
      ] as const) {
        const { id } = await pool.create(volumeSpec(name, kept));
        hurt(image(id));
        await pool.remove(id);
        assert.match((await admin.restore({ id }, call)).problem ?? '', words);
        assert.match((await pool.condition(id)).message, words);
      }
      const { id } = await pool.create(volumeSpec('whole', kept));
      await pool.remove(id);
      assert.equal((await admin.restore({ id }, call)).problem, undefined);
      await pools.close();
    });
  });
}

async function refused(call: Promise<unknown>, id: string): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof DataLoss, String(error));
    assert.match(error.message, new RegExp(id));
    return true;
  });
}

async function rangesOf(pool: Catalog, target: ReturnType<typeof snapshotIdFor>): Promise<void> {
  const request = { base: undefined, target, fromBytes: 0n, signal: new AbortController().signal };
  for await (const _range of pool.changedRanges(request));
}

function openInFile(scratch: Scratch): Promise<Catalog> {
  return openTestPool(scratch, { location: { type: 'file', path: scratch.join('pool.img'), sizeBytes: 2n << 30n } });
}

function openInDirectory(scratch: Scratch): Promise<Catalog> {
  return openTestPool(scratch);
}
