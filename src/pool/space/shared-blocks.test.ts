import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Place } from '../../kernel/file/fiemap.ts';
import { findSharedBlocks } from './shared-blocks.ts';

const diskBlocks = 24;
/** Which blocks of a disk an image has. */
const image = fc.record({
  isSnapshot: fc.boolean(),
  blocks: fc.uniqueArray(fc.nat(diskBlocks - 1), { maxLength: 12 }),
});

test('each block counts once, and is a snapshot’s if nothing else has it', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(image, { maxLength: 6 }), async (images) => {
      const holders = Array.from({ length: diskBlocks }, (_, at) => images.filter(({ blocks }) => blocks.includes(at)));
      const places = (blocks: readonly number[]): Place[] =>
        blocks.map((at) => ({
          physicalBytes: at * 10,
          lengthBytes: 10,
          isShared: (holders[at]?.length ?? 0) > 1,
        }));
      const found = await findSharedBlocks(
        images.map(({ blocks, isSnapshot }) => ({ isSnapshot, places: pages(places(blocks)) })),
      );
      const sum = images.reduce((total, { blocks }) => total + blocks.length, 0);
      const distinct = holders.filter(({ length }) => length > 0).length;
      const onlySnapshots = holders.filter(
        (each) => each.length > 0 && each.every(({ isSnapshot }) => isSnapshot),
      ).length;
      assert.deepEqual(found, {
        duplicateBytes: BigInt(10 * (sum - distinct)),
        snapshotBytes: BigInt(10 * onlySnapshots),
      });
    }),
  );
});

async function* pages(places: readonly Place[]): AsyncGenerator<readonly Place[]> {
  for (const place of places) yield [place];
}
