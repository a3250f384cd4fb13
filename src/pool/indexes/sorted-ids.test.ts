import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SortedIds } from './sorted-ids.ts';

test('what came and did not go is there once, in order; a page begins behind its token, there or not', () => {
  const ids = fc.string({ maxLength: 2 });
  const changes = fc.array(fc.record({ isAdded: fc.boolean(), id: ids }), { maxLength: 60 });
  fc.assert(
    fc.property(fc.array(ids), changes, ids, (first, further, token) => {
      const sorted = new SortedIds(first);
      const expected = new Set(first);
      for (const { id, isAdded } of further) {
        if (isAdded) {
          sorted.add(id);
          expected.add(id);
        } else {
          sorted.delete(id);
          expected.delete(id);
        }
      }
      const inOrder = [...expected].sort();
      assert.deepEqual([...sorted.after(undefined)], inOrder);
      assert.deepEqual(
        [...sorted.after(token)],
        inOrder.filter((id) => id > token),
      );
    }),
  );
});
