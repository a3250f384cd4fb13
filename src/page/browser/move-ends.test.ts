import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endsOf, titleOf, toldOnce } from './move-ends.ts';
import type { Move, Volume } from './types.ts';

const moving = { id: 'vol-1', state: 'running', startedAt: '2026-11-26T00:00:00Z' } as const;
const between: Move = { ...moving, node: 'a', from: 'one', to: 'two' };
const leaving: Move = { ...moving, node: 'a', from: 'one', to: '', toNode: 'b' };
const arriving: Move = { ...moving, node: 'b', from: 'one', to: 'two', fromNode: 'a' };

test('a move between two nodes is shown once, by the node that the volume goes to', () => {
  const all = new Map([leaving, arriving].map((move) => [`${move.node}/${move.id}`, move]));
  assert.deepEqual(
    toldOnce(all).map(([key]) => key),
    ['b/vol-1'],
  );
  // While that one is away, or the move is of another volume, the first one tells of it.
  assert.deepEqual(toldOnce(new Map([['a/vol-1', leaving]])).length, 1);
  const other = new Map([
    ['a/vol-1', leaving],
    ['b/vol-2', { ...arriving, id: 'vol-2' }],
  ]);
  assert.equal(toldOnce(other).length, 2);
});

test('the ends of a move have nodes where they are two', () => {
  assert.deepEqual(endsOf(between), { from: 'one', to: 'two' });
  assert.deepEqual(endsOf(leaving), { from: 'a/one', to: 'b' });
  assert.deepEqual(endsOf(arriving), { from: 'a/one', to: 'b/two' });
});

test('a volume that moves has the name of its claim, on whichever node it is', () => {
  const known = { claim: { namespace: 'shop', name: 'data' }, name: 'pvc-1' } as Volume;
  for (const node of ['a', 'b']) {
    assert.equal(titleOf(arriving, { volumes: new Map([[`${node}/vol-1`, known]]) }), 'shop/data');
  }
  assert.equal(titleOf(arriving, { volumes: new Map() }), 'vol-1');
});
