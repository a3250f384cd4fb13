import assert from 'node:assert/strict';
import type { ByteRange } from '../../../src/kernel/file/sparse.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { type SnapshotId, volumeIdFor } from '../../../src/volume/id.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { type Operation, snapshotOf } from './operations.ts';

/** All that differ between two snapshots; without a base, all that hold data. */
export async function changedRanges(
  pool: Pool,
  base: SnapshotId | undefined,
  target: SnapshotId,
  fromBytes = 0n,
): Promise<ByteRange[]> {
  const ranges: ByteRange[] = [];
  const { signal } = new AbortController();
  for await (const range of pool.changedRanges({ base, target, fromBytes, signal })) ranges.push(range);
  return ranges;
}

/** What only pools of thin volumes can do. */
export const thinOperations: Readonly<Record<string, Operation>> = {
  'changed blocks': {
    prepare: async (pool, name) => {
      const spec = volumeSpec(name, { content: { type: 'mount', fsType: 'ext4' }, sizeBytes: 16n << 20n });
      await pool.create(spec);
      const sourceId = volumeIdFor('node', 'test', name);
      await pool.takeSnapshots([{ id: snapshotOf(name), name, sourceId, parameters: {} }]);
    },
    run: (pool, name) => changedRanges(pool, undefined, snapshotOf(name)),
    check: async (pool, name) => assert.ok((await changedRanges(pool, undefined, snapshotOf(name))).length > 0),
  },
};
