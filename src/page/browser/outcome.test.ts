import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cancelOutcome, restoreOutcome, restoreSentence } from './outcome.ts';

test('a move that has arrived before its cancel is not called one whose volume stays', () => {
  const move = { id: 'vol-1', from: 'one', to: 'two', startedAt: '2026-11-26T00:00:00Z' } as const;
  assert.equal(cancelOutcome('shop/data', { ...move, state: 'cancelled' }), 'shop/data stays in pool one.');
  const end = 'it has arrived there, and its move has ended.';
  assert.equal(cancelOutcome('shop/data', { ...move, state: 'done' }), `shop/data is in pool two: ${end}`);
  const leaving = { ...move, to: '', toNode: 'b', state: 'done' } as const;
  assert.equal(cancelOutcome('shop/data', leaving), `shop/data is on node b: ${end}`);
});

test('a cancel that has not seen the volume where it came from does not say that it stays there', () => {
  const move = { id: 'vol-1', from: 'one', to: 'two', fromNode: 'b', startedAt: '2026-11-26T00:00:00Z' } as const;
  assert.equal(
    cancelOutcome('shop/data', { ...move, state: 'cancelled', isUnseen: true }),
    'The copy of shop/data that had come to pool two is removed: where the volume is was not seen.',
  );
});

test('a cancel without the pool that the volume leaves does not say that it stays there', () => {
  const move = { id: 'vol-1', from: 'one', to: '', toNode: 'b', startedAt: '2026-11-26T00:00:00Z' } as const;
  assert.match(
    cancelOutcome('shop/data', { ...move, state: 'cancelled', isUnseen: true }),
    /^The move of shop\/data to node b is cancelled\. Pool one was not looked at/,
  );
});

test('a volume that is back says what is wrong with it', () => {
  assert.equal(restoreOutcome('shop/data', 'one', {}), 'shop/data is back in pool one.');
  const problem = 'This copy is as the volume was when it moved out of pool one.';
  assert.equal(restoreOutcome('shop/data', 'one', { problem }), `shop/data is back in pool one. ${problem}`);
});

test('a copy that its volume has left by a move is not promised to have the data of the volume', () => {
  const place = { node: 'a', pool: 'one' };
  assert.match(restoreSentence(place), /^The volume is again in pool one of node a, with its id, name and data/);
  assert.match(
    restoreSentence({ ...place, left: true }),
    /^The volume has left this copy .* nothing that was written later/,
  );
});
