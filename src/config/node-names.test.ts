import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseSection, isFor, overlaps, unfitNames } from './node-names.ts';

test('a name is for one node, a pattern for all that fit', () => {
  for (const [names, nodeId, expected] of [
    ['db-1', 'db-1', true],
    ['db-1', 'db-10', false],
    ['db-*', 'db-1', true],
    ['db-*', 'db-', true],
    ['db-*', 'web-db-1', false],
    ['*.eu.example', 'a.eu.example', true],
    ['*.eu.example', 'a.eu-example', false],
    ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'a-c-b', false],
    ['+', '+', false],
  ] as const) {
    assert.equal(isFor(names, nodeId), expected, `${names} ${nodeId}`);
  }
});

test('what cannot be the name of a node is refused, and so is a pattern for all', () => {
  for (const names of ['db-1', 'db-*', '*-db', 'a.b_c', '1']) assert.equal(unfitNames(names), undefined, names);
  for (const names of ['', '-a', 'a-', 'a b', 'a/b', '[ab]', 'a?']) {
    assert.match(unfitNames(names) ?? '', /^must be the name of a node/, names);
  }
  for (const names of ['*', '**']) assert.match(unfitNames(names) ?? '', /at the top of the file/);
});

test('its own name stands before any pattern, and two patterns are one too many', () => {
  assert.deepEqual(chooseSection([], 'db-1'), { names: undefined });
  assert.deepEqual(chooseSection(['db-*'], 'db-1'), { names: 'db-*' });
  assert.deepEqual(chooseSection(['db-*', 'db-1', '*-1'], 'db-1'), { names: 'db-1' });
  assert.deepEqual(chooseSection(['db-*', '*-1'], 'db-1'), { undecided: ['db-*', '*-1'] });
});

test('patterns that fit the same name are found, and those of which one is in the other', () => {
  for (const [names, expected] of [
    [['db-*', 'db-1*'], ['db-1* in db-*']],
    [['db-1*', 'db-*', 'web-*'], ['db-1* in db-*']],
    [['db-*', '*-ssd'], ['db-* and *-ssd']],
    [['*-a-*', '*-b-*'], ['*-a-* and *-b-*']],
    [['a*b*c', 'a*c'], ['a*b*c in a*c']],
    [['a*1', 'b*1'], []],
    [['a*1', 'a*2'], []],
    [['a.*', 'axb*'], []],
    // A whole name stands before any pattern.
    [['db-1', 'db-*'], []],
    [['db-1', 'db-2'], []],
  ] as const) {
    const found = overlaps(names).map(({ isContained, one, other }) => `${one} ${isContained ? 'in' : 'and'} ${other}`);
    assert.deepEqual(found, expected, names.join(' '));
  }
});
