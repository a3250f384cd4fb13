import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isMetadataLow, metadataBytesOf } from './metadata.ts';

test('nothing new is made before the text of the group has no room left', () => {
  const totalBytes = 1_044_480n;
  assert.equal(isMetadataLow({ totalBytes, freeBytes: 522_240n }), false);
  assert.equal(isMetadataLow({ totalBytes, freeBytes: 65_280n }), false);
  assert.equal(isMetadataLow({ totalBytes, freeBytes: 65_279n }), true);
  assert.equal(isMetadataLow({ totalBytes, freeBytes: 0n }), true);
});

test('what a volume takes of it is its tags, and what LVM says of it and of its parts', () => {
  const tags = ['x'.repeat(996), 'y'];
  assert.equal(metadataBytesOf({ layout: 'linear', tags }), 700n + 1005n);
  assert.equal(metadataBytesOf({ layout: 'raid1', tags: [] }), 3500n);
});
