import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { Pools } from '../../src/pool/pools.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { Exposition } from '../support/exposition.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const shown = 1_000;
const hidden = 120;
const sizeBytes = 16 << 20;

/** The sum of a metric of all volumes. */
function sum(seen: Exposition, name: string): number {
  return seen.find(name).reduce((total, { value }) => total + value, 0);
}

describe('a pool with more volumes than are shown one by one', () => {
  test('shows those that take the most, the same after a restart, and sums of the others', async () => {
    using scratch = new Scratch('many');
    const specs = Array.from({ length: shown + hidden }, (_, index) =>
      volumeSpec(`v${index}`, { sizeBytes: BigInt(sizeBytes), content: { type: 'block' } }),
    );
    const ids = specs.map(({ id }) => id);
    const [first = assert.fail()] = ids;

    const empty = await afterStart(scratch, async (pool) => {
      for (let at = 0; at < specs.length; at += 16) {
        await Promise.all(specs.slice(at, at + 16).map((spec) => pool.create(spec)));
      }
    });
    // All are equal, and were read in the order in which they were made; a listing has another one.
    assert.deepEqual(idsIn(empty), ids.toSorted().slice(0, shown));
    assert.deepEqual(idsIn(await afterStart(scratch)), idsIn(empty));

    const full = ids.slice(hidden);
    for (const id of full) fill(scratch, id);
    const seen = await afterStart(scratch);
    assert.deepEqual(idsIn(seen), full.toSorted());
    const of = { pool: 'test' };
    assert.equal(seen.value('holdfast_pool_volumes', of), shown + hidden);
    assert.equal(seen.value('holdfast_volumes_not_shown', of), hidden);
    assert.equal(seen.value('holdfast_volumes_not_shown_size_bytes', of), hidden * sizeBytes);
    const hiddenUsed = seen.value('holdfast_volumes_not_shown_used_bytes', of);
    assert.ok(hiddenUsed < sum(seen, 'holdfast_volume_used_bytes') / shown, `${hiddenUsed}`);

    // One that had nothing in it takes as much as the others now, and the last of all these by their ids gives way.
    fill(scratch, first);
    assert.deepEqual(idsIn(await afterStart(scratch)), [...full, first].sort().slice(0, shown));
  });
});

/** What is exposed of the pool once it has been opened, and something done with it. */
async function afterStart(scratch: Scratch, work = async (_pool: Pool) => {}): Promise<Exposition> {
  const pools = new Pools(new Map([['test', () => openTestPool(scratch)]]), 'test');
  await pools.open();
  await work(pools.get('test'));
  const identity = { version: '0', driver: 'd', node_id: 'n' };
  const metrics = new Metrics({ pools, kubeletQueue: new DiskQueue('kubelet', 1), identity });
  const { body } = await metrics.page();
  await pools.close();
  return new Exposition(body);
}

function fill(scratch: Scratch, id: VolumeId): void {
  const path = scratch.join('pool', 'volumes', id, 'data');
  writeFileSync(path, Buffer.alloc(64 << 10, 1), { flag: 'r+' });
}

function idsIn(seen: Exposition): string[] {
  return seen
    .find('holdfast_volume_info')
    .map(({ labels }) => labels['volume_id'] ?? '')
    .sort();
}
