import assert from 'node:assert/strict';
import { test } from 'node:test';
import { collectGarbage, whenIdle } from './memory.ts';

test('work is done once each time that the activity rests', async () => {
  let activity = 0;
  let worked = 0;
  const rests: (() => void)[] = [];
  const rest = () => new Promise<void>((resolve) => rests.push(resolve));
  whenIdle(
    () => activity,
    1,
    () => {
      worked++;
      for (const wake of rests.splice(0)) wake();
    },
  );
  // Its own timer keeps no process alive.
  const alive = setInterval(() => undefined, 1000);
  await rest();
  assert.equal(worked, 1);
  activity++;
  await rest();
  assert.equal(worked, 2);
  clearInterval(alive);
});

test('garbage can be collected', () => {
  collectGarbage();
});
