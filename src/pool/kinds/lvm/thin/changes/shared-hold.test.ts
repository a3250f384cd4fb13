import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Unavailable } from '../../../../../volume/errors.ts';
import { SharedHold } from './shared-hold.ts';

/** Things with numbers, of which there must be one at a time. */
function numbered({ lingerMs = 1e6, longestMs = 1e6 } = {}) {
  const there = new Set<number>();
  const given: number[] = [];
  let count = 0;
  const hold = new SharedHold<number>({
    ...{ lingerMs, longestMs, what: 'it' },
    take: async () => {
      assert.equal(there.size, 0, 'two at a time');
      there.add(++count);
      return count;
    },
    giveBack: async (thing) => {
      assert.ok(there.delete(thing));
      given.push(thing);
    },
  });
  return { hold, there, given };
}

/** A use that goes on until it is ended. */
function longUse(hold: SharedHold<number>, after: number) {
  const began = Promise.withResolvers<number>();
  const end = Promise.withResolvers<void>();
  const done = hold.use(after, async (thing) => {
    began.resolve(thing);
    await end.promise;
    return thing;
  });
  return { began: began.promise, end: () => end.resolve(), done };
}

describe('what is shared by those who use it', () => {
  test('is one thing for all who need no newer one', async () => {
    const { hold } = numbered();
    const first = longUse(hold, 0);
    assert.equal(await first.began, 1);
    assert.equal(await hold.use(0, async (thing) => thing), 1);
    first.end();
    assert.equal(await first.done, 1);
    assert.equal(await hold.use(0, async (thing) => thing), 1);
  });

  test('who needs a newer one waits for those who have begun, and nobody comes before', async () => {
    const { given, hold } = numbered();
    const old = longUse(hold, 0);
    await old.began;
    const after = hold.lastNumber;
    const order: string[] = [];
    const newer = hold.use(after, async (thing) => order.push(`newer ${thing}`));
    const late = hold.use(0, async (thing) => order.push(`late ${thing}`));
    await new Promise(setImmediate);
    assert.deepEqual(order, []);
    old.end();
    await Promise.all([newer, late]);
    assert.deepEqual(order, ['newer 2', 'late 2']);
    assert.deepEqual(given, [1]);
  });

  test('is taken anew when it is old, and given back when nobody comes', async () => {
    const aged = numbered({ longestMs: 0 });
    for (const expected of [1, 2, 3]) assert.equal(await aged.hold.use(0, async (thing) => thing), expected);
    const { given, hold } = numbered({ lingerMs: 0 });
    await hold.use(0, async () => undefined);
    while (given.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.equal(await hold.use(0, async (thing) => thing), 2);
  });

  test('is given back at the end, after those who have begun, and nobody gets it then', async () => {
    const { given, hold, there } = numbered();
    const user = longUse(hold, 0);
    await user.began;
    const closed = hold.close();
    await assert.rejects(
      hold.use(0, async () => undefined),
      Unavailable,
    );
    user.end();
    await closed;
    assert.deepEqual([given, there.size], [[1], 0]);
  });

  test('an error while it is taken or used is that of its user alone', async () => {
    let fails = true;
    const hold = new SharedHold<number>({
      ...{ lingerMs: 1e6, longestMs: 1e6, what: 'it' },
      take: async () => (fails ? assert.fail('cannot') : 1),
      giveBack: async () => undefined,
    });
    await assert.rejects(
      hold.use(0, async () => undefined),
      /cannot/,
    );
    fails = false;
    await assert.rejects(
      hold.use(0, () => assert.fail('mine')),
      /mine/,
    );
    assert.equal(await hold.use(0, async (thing) => thing), 1);
  });

  test('what cannot be given back is not used any more, and is given back before the next is taken', async () => {
    let fails = true;
    let count = 0;
    const given: number[] = [];
    const hold = new SharedHold<number>({
      ...{ lingerMs: 1e6, longestMs: 1e6, what: 'it' },
      take: async () => ++count,
      giveBack: async (thing) => {
        if (fails) assert.fail('not now');
        given.push(thing);
      },
    });
    await hold.use(0, async () => undefined);
    await assert.rejects(
      hold.use(hold.lastNumber, async () => undefined),
      /not now/,
    );
    await assert.rejects(
      hold.use(0, async () => undefined),
      /not now/,
    );
    fails = false;
    assert.equal(await hold.use(0, async (thing) => thing), 2);
    assert.deepEqual(given, [1]);
    // Automatically as well.
    fails = true;
    const linger = new SharedHold<number>({
      ...{ lingerMs: 0, longestMs: 1, what: 'it' },
      take: async () => 7,
      giveBack: async (thing) => {
        const failed = fails;
        fails = false;
        if (failed) assert.fail('not now');
        given.push(thing);
      },
    });
    await linger.use(0, async () => undefined);
    while (given.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
  });

  test('a user that fails keeps nobody waiting', async () => {
    const { hold } = numbered();
    const failing = hold.use(0, async () => assert.fail('mine'));
    await assert.rejects(failing, /mine/);
    assert.equal(await hold.use(hold.lastNumber, async (thing) => thing), 2);
  });
});
