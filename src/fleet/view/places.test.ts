import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Unavailable } from '../../volume/errors.ts';
import { Places } from './places.ts';

const never = new AbortController().signal;

/** A work that ends when the test lets it. */
function held() {
  return Promise.withResolvers<string>();
}

describe('places for requests', () => {
  test('more than there are places wait, and go on in their order', async () => {
    const places = new Places({ max: 1, maxWaiting: 2, waitMs: 60_000 });
    const [first, second, third] = [held(), held(), held()];
    const begun: string[] = [];
    const run = (name: string, work: Promise<string>) =>
      places.run(never, () => {
        begun.push(name);
        return work;
      });
    const all = [run('a', first.promise), run('b', second.promise), run('c', third.promise)];
    await assert.rejects(run('d', Promise.resolve('')), Unavailable);
    assert.deepEqual(begun, ['a']);
    first.resolve('1');
    assert.equal(await all[0], '1');
    second.reject(new Error('it failed'));
    await assert.rejects(all[1] ?? Promise.resolve(), /it failed/);
    third.resolve('3');
    assert.equal(await all[2], '3');
    assert.deepEqual(begun, ['a', 'b', 'c']);
    // All places are free again.
    assert.equal(await run('e', Promise.resolve('5')), '5');
  });

  test('a caller that is gone, or has waited too long, takes no place', async () => {
    const places = new Places({ max: 1, maxWaiting: 2, waitMs: 1 });
    const [first, other] = [held(), held()];
    const running = places.run(never, () => first.promise);
    const gone = new AbortController();
    const left = places.run(gone.signal, () => other.promise);
    gone.abort();
    await assert.rejects(left, Unavailable);
    await assert.rejects(
      places.run(never, () => other.promise),
      Unavailable,
    );
    first.resolve('1');
    assert.equal(await running, '1');
    assert.equal(await places.run(never, async () => '2'), '2');
  });
});
