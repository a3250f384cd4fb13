import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseSection, isFor, unfitNames } from './node-names.ts';

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
