import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CallContext } from '../csi/handler.ts';
import { InFlightCalls } from './in-flight-calls.ts';

const context: CallContext = { deadline: undefined, note: () => undefined };

/** A handler that runs until the test ends it. */
function openHandler() {
  const ends: { resolve: (response: object) => void; reject: (error: Error) => void }[] = [];
  const Work = (_request: object, _context: CallContext) =>
    new Promise<object>((resolve, reject) => ends.push({ resolve, reject }));
  return { ends, Work };
}

test('T02: it waits for every call, also for those that fail', async () => {
  const { ends, Work } = openHandler();
  const inFlight = new InFlightCalls();
  const handlers = inFlight.count({ Work });
  const calls = [handlers.Work({}, context), handlers.Work({}, context)];
  let isIdle = false;
  const idle = inFlight.idle(60_000).then((result) => {
    isIdle = result;
  });
  ends[0]?.resolve({ done: true });
  assert.deepEqual(await calls[0], { done: true });
  assert.equal(isIdle, false);
  ends[1]?.reject(new Error('no'));
  await assert.rejects(calls[1] ?? Promise.resolve(), /no/);
  await idle;
  assert.equal(isIdle, true);
  assert.equal(inFlight.begun, 2);
});

test('with nothing at work it does not wait', async () => {
  assert.equal(await new InFlightCalls().idle(0), true);
});

test('a call that takes too long is given up on', async () => {
  const { Work } = openHandler();
  const inFlight = new InFlightCalls();
  void inFlight.count({ Work }).Work({}, context);
  assert.equal(await inFlight.idle(1), false);
});
