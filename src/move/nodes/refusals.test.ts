import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { volumeIdFor } from '../../volume/id.ts';
import { MoveForgotten } from '../source.ts';
import { Refusals } from './refusals.ts';

const id = volumeIdFor('a', 'data', 'data');

test('a refusal is for the move and the node that it was said of, for a minute', () => {
  let nowMs = 1000;
  const now = mock.method(performance, 'now', () => nowMs);
  const refusals = new Refusals();
  const ended = new MoveForgotten('it is not known.');
  assert.equal(refusals.refuse({ id, moveId: 'm', node: 'b' }, ended), ended);
  assert.deepEqual(refusals.of(id, 'm'), { node: 'b', ended });
  assert.equal(refusals.of(id, 'other'), undefined);
  assert.equal(refusals.of(volumeIdFor('a', 'data', 'other'), 'm'), undefined);
  nowMs += 59_000;
  assert.equal(refusals.of(id, 'm')?.node, 'b');
  nowMs += 2_000;
  assert.equal(refusals.of(id, 'm'), undefined);
  now.mock.restore();
});
