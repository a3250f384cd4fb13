import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSelector, selects } from './labels.ts';

test('a selector wants all of its labels, with their values', () => {
  const selector = parseSelector('media=nvme, tier=gold');
  assert.equal(selects(selector, { media: 'nvme', tier: 'gold', rack: '7' }), true);
  assert.equal(selects(selector, { media: 'nvme' }), false);
  assert.equal(selects(selector, { media: 'nvme', tier: 'silver' }), false);
  assert.equal(selects(parseSelector('toString=x'), {}), false);
});

test('what is no list of labels is refused', () => {
  for (const text of [
    '',
    'media',
    'media=',
    '=nvme',
    'media==nvme',
    'media=nvme,',
    'a=1,a=2',
    'a=b c',
    '-a=b',
    'a!=b',
  ]) {
    assert.throws(() => parseSelector(text), /must be labels of a pool/, text);
  }
});
