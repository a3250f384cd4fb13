import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOurs } from './snapshot-note.ts';

test('a metadata snapshot is released only if it is the one that was noted', () => {
  assert.equal(isOurs({ block: 42n }, 42n), true);
  assert.equal(isOurs({ block: undefined }, 42n), true, 'killed while it was made');
  assert.equal(isOurs({ block: 41n }, 42n), false, 'released, and then somebody else made one');
  assert.equal(isOurs(undefined, 42n), false);
});
