import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { InvalidArgument } from '../volume/errors.ts';
import { allowsHere, checkSegments, contains } from './topology.ts';

const key = 'topology.holdfast.dev/node';
const here = { [key]: 'n1' };
const there = { [key]: 'n2' };

describe('topology', () => {
  for (const segments of [
    {},
    here,
    { zone: 'A-b_c.9' },
    { ['a'.repeat(63)]: 'b'.repeat(63) },
    { [`${'p'.repeat(63)}/n`]: 'v' },
  ]) {
    test(`Y01: ${JSON.stringify(segments)} are well formed`, () => checkSegments(segments));
  }

  for (const segments of [
    { '': 'a' },
    { zone: '' },
    { zone: 'a/b' },
    { zone: '-a' },
    { zone: 'ä' },
    { '/zone': 'a' },
    { 'prefix/': 'a' },
    { 'a/b/c': 'a' },
    { 'Upper.example/zone': 'a' },
    { 'a..b/zone': 'a' },
    { ['a'.repeat(64)]: 'b' },
    { zone: 'b'.repeat(64) },
    { [`${'p'.repeat(64)}/n`]: 'v' },
    { zone: 'a', ZONE: 'a' },
    { 'zone\n': 'a' },
    { zone: 'a\n' },
  ]) {
    test(`Y01: ${JSON.stringify(segments)} are refused`, () => {
      assert.throws(() => checkSegments(segments), InvalidArgument);
    });
  }

  test('Y01: keys do not differ by case, values do', () => {
    assert.ok(contains({ 'topology.holdfast.dev/NODE': 'n1' }, here));
    assert.ok(!contains({ [key]: 'N1' }, here));
  });

  test('Y03: a place described by a key that we do not have is not here', () => {
    assert.ok(!contains({ ...here, zone: 'a' }, here));
    assert.ok(contains({}, here));
  });

  test('Y03: one requisite topology that has this node is enough', () => {
    assert.ok(allowsHere({ requisite: [there, here], preferred: [there] }, here));
    assert.ok(!allowsHere({ requisite: [there], preferred: [] }, here));
  });

  test('Y03: without a requisite, preferences forbid nothing', () => {
    assert.ok(allowsHere({ requisite: [], preferred: [there] }, here));
    assert.ok(allowsHere(undefined, here));
  });
});
