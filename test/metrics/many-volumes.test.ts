import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Lane } from '../../src/kernel/lane.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
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
    const pools = () => new Pools(new Map([['test', () => openTestPool(scratch)]]), 'test');
    const first = pools();
    await first.open();
    const specs = Array.from({ length: shown + hidden }, (_, index) =>
      volumeSpec(`v${index}`, { sizeBytes: BigInt(sizeBytes), content: { type: 'block' } }),
    );
    const pool = first.get('test');
    for (let at = 0; at < specs.length; at += 16) {
      await Promise.all(specs.slice(at, at + 16).map((spec) => pool.create(spec)));
    }
    // As many as can be shown have something in them: the last ones that were made, which a listing has anywhere.
    const full = specs.slice(hidden).map(({ id }) => id);
    for (const id of full) fill(scratch, id);

    const before = await look(first);
    await first.close();
    const second = pools();
    await second.open();
    const after = await look(second);
    for (const seen of [before, after]) {
      assert.deepEqual(idsIn(seen), [...full].sort());
      const of = { pool: 'test' };
      assert.equal(seen.value('holdfast_pool_volumes', of), shown + hidden);
      assert.equal(seen.value('holdfast_volumes_not_shown', of), hidden);
      assert.equal(seen.value('holdfast_volumes_not_shown_size_bytes', of), hidden * sizeBytes);
      const hiddenUsed = seen.value('holdfast_volumes_not_shown_used_bytes', of);
      assert.ok(hiddenUsed < sum(seen, 'holdfast_volume_used_bytes') / shown, `${hiddenUsed}`);
    }

    // One that had nothing in it takes more than the others now, and one of them gives way: by its id, as all are equal.
    const grown = specs[0]?.id;
    assert.ok(grown !== undefined);
    fill(scratch, grown);
    const last = [...full, grown].sort().at(-1);
    assert.deepEqual(
      idsIn(await look(second)),
      [...full, grown].sort().filter((id) => id !== last),
    );
    await second.close();
  });
});

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

async function look(pools: Pools): Promise<Exposition> {
  const identity = { version: '0', driver: 'd', node_id: 'n' };
  const metrics = new Metrics({ pools, kubeletLane: new Lane('kubelet', 1), identity });
  return new Exposition((await metrics.page()).body);
}
