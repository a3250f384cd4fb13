import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Pool } from '../../src/pool/pool.ts';
import { groupIdFor, memberIdFor } from '../../src/volume/id.ts';
import { BeforeStep } from '../support/before-step.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const group = { id: groupIdFor('node', 'group'), name: 'group', parameters: {} };

/** Two volumes, as members of a group. */
async function members(pool: Pool) {
  const block = { content: { type: 'block' }, sizeBytes: 1n << 20n } as const;
  const volumes = [await pool.create(volumeSpec('a', block)), await pool.create(volumeSpec('b', block))];
  return volumes.map(({ id }) => ({ id: memberIdFor(group.id, id), name: '', sourceId: id, parameters: {} }));
}

describe('GR10: a group of which only members are there', () => {
  test('because the cut failed half way: they go', async () => {
    using scratch = new Scratch('cut');
    const pool = await openTestPool(scratch);
    const specs = await members(pool);
    const [, last = assert.fail()] = specs;
    const taken = scratch.join('pool/snapshots', last.id);
    {
      // Somebody has put something in the place of the last one by hand.
      using _failing = new BeforeStep('snapshot/commit', () => mkdirSync(join(taken, 'by-hand'), { recursive: true }));
      await assert.rejects(pool.takeSnapshots(specs, group), { code: 'ENOTEMPTY' });
    }
    assert.deepEqual(readdirSync(scratch.join('pool/snapshots')), [last.id]);
    await pool.close();
  });

  test('because the driver was killed before it: they go at the start', async () => {
    using scratch = new Scratch('cut');
    const pool = await openTestPool(scratch);
    const specs = await members(pool);
    await pool.takeSnapshots(specs, group);
    await pool.close();
    rmSync(scratch.join('pool/groups', `${group.id}.json`));
    const again = await openTestPool(scratch);
    assert.deepEqual(await again.listSnapshots(undefined, undefined), []);
    await eventually(() => assert.deepEqual(readdirSync(scratch.join('pool/snapshots')), []));
    assert.equal((await again.takeSnapshots(specs, group)).length, 2);
    await again.close();
  });
});
