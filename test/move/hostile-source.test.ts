import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { alignedMemory } from '../../src/kernel/file/direct.ts';
import type { Piece } from '../../src/move/copy.ts';
import { Moving } from '../../src/move/moving.ts';
import { BytesPerSecond } from '../../src/move/pace.ts';
import type { MoveSource } from '../../src/move/source.ts';
import { Reached } from '../../src/move/tree/progress.ts';
import type { Pool, VolumeSpec } from '../../src/pool/pool.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { unmarked } from '../../src/volume/move/rule.ts';
import { openTestDirectories } from '../support/directory-pool.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const mib = 1 << 20;

/** A source that answers all right, and sends more than the volume has. */
async function move(from: Pool, pools: Pools, { id, sizeBytes }: VolumeSpec): Promise<void> {
  const [moveId, record] = [randomUUID(), (await from.find(id)) ?? assert.fail('it is not there')];
  async function* pieces(): AsyncGenerator<Piece, void, void> {
    const bytes = alignedMemory(mib).fill(7);
    const digest = createHash('sha256').update(bytes).digest();
    for (let at = 0n; at < 2n * sizeBytes; at += BigInt(mib)) {
      yield { offsetBytes: at, lengthBytes: mib, data: { bytes, digest, free: () => undefined } };
    }
  }
  const source: MoveSource = {
    ...{ title: 'node other', node: 'other', settle: async () => undefined },
    look: async () => ({ record, isUsed: false, hasChanges: false, state: { mark: unmarked, why: undefined } }),
    ...{ describe: async () => undefined, verified: async () => undefined },
    ...{ hasSnapshot: async () => false, takeSnapshot: async () => undefined, removeSnapshot: async () => undefined },
    ...{ removeSnapshots: async () => undefined, open: async () => undefined, takeBack: async () => undefined },
    close: async ({ fenceId }) => ({ record, fenceId }),
    read: async () => ({
      ...{ record, endBytes: 1n << 61n, totalBytes: 1n, pieces: pieces() },
      [Symbol.asyncDispose]: async () => undefined,
    }),
    handOver: async (request, commit) => commit({ ...request, generation: 1 }),
  };
  await new Moving({
    job: { id, moveId, from: 'from', to: 'to', node: 'other', startedAt: new Date().toISOString(), state: 'running' },
    ...{ source, pools, objects: new ObjectQueue(), pace: new BytesPerSecond(undefined) },
    progress: {
      phase: 'copying',
      round: 0,
      doneBytes: 0n,
      totalBytes: 0n,
      copiedBytes: 0n,
      roundStartedMs: 0,
      reached: new Reached(),
    },
    signal: new AbortController().signal,
    looked: async () => undefined,
    arrived: async () => undefined,
    whole: async () => undefined,
  }).run();
}

describe('a node that names another end than the volume has', () => {
  for (const type of ['block', 'directory'] as const) {
    test(`of a ${type} volume gets nothing written`, async () => {
      using scratch = new Scratch('hostile-source');
      using other = new Scratch('hostile-source');
      const spec = volumeSpec('data', { content: { type }, sizeBytes: BigInt(16 * mib) });
      const from =
        type === 'directory'
          ? await openTestDirectories(other, { name: 'from' })
          : await openTestPool(scratch, { name: 'from', location: { type: 'directory', path: scratch.join('from') } });
      const pools = new Pools(
        new Map([
          [
            'to',
            (queue) =>
              type === 'directory'
                ? openTestDirectories(scratch, { name: 'to', queue })
                : openTestPool(scratch, {
                    ...{ name: 'to', queue, location: { type: 'directory', path: scratch.join('to') } },
                  }),
          ],
        ]),
        'to',
      );
      const [failure] = await pools.open();
      assert.equal(failure, undefined);
      try {
        await from.create(spec);
        await assert.rejects(move(from, pools, spec), /DataLoss: The other end says that the volume ends at/);
        assert.equal(await pools.find(spec.id), undefined);
      } finally {
        await pools.close();
        await from.close();
      }
    });
  }
});
