import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Reached } from './progress.ts';

test('a copy of a tree has come further only where no try has been before', () => {
  const reached = new Reached();
  const come = (atBytes: bigint, passed?: bigint) => {
    reached.come({ atBytes }, passed);
    return reached.takeFurther();
  };
  assert.equal(reached.takeFurther(), false);
  assert.deepEqual(
    [come(100n), come(100n), come(100n, 5n), come(100n, 5n), come(100n, 7n)],
    [...[true, false, true, false, true]],
  );
  // It begins again, and passes the same once more.
  assert.deepEqual([come(50n), come(50n, 9n), come(100n), come(101n)], [false, false, false, true]);
  assert.equal(reached.takeFurther(), false);
});
