import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adoptsNothing } from './adoptions.ts';

test('a pool that adopts nothing says why, where another one of its kind does', () => {
  assert.equal(
    adoptsNothing('plain', { kind: 'image', extras: {} }).message,
    'pool plain (image) makes its volumes itself: it adopts and releases none.',
  );
  const noAdoption = 'adopts and releases nothing: its section has no adopt: true (docs/disks.md).';
  assert.equal(
    adoptsNothing('ok1', { kind: 'disk', extras: { noAdoption } }).message,
    'pool ok1 adopts and releases nothing: its section has no adopt: true (docs/disks.md).',
  );
});
