import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SharedRun } from './shared-run.ts';

describe('a run that callers share', () => {
  const world = { state: 0 };
  const finish: (() => void)[] = [];
  let runs = 0;
  const shared = new SharedRun(async () => {
    const seen = world.state;
    runs++;
    await new Promise<void>((resolve) => finish.push(resolve));
    if (seen < 0) throw new Error(`state ${seen}`);
    return seen;
  });
  const begun = async (count: number) => {
    for (let tries = 0; tries < 100 && finish.length < count; tries++) await new Promise(setImmediate);
    return finish[count - 1] ?? assert.fail(`run ${count} has not begun`);
  };

  test('a caller gets what the world was no earlier than its call; callers that wait share a run', async () => {
    const early = shared.run();
    const endFirst = await begun(1);
    world.state = 1;
    const late = [shared.run(), shared.run(), shared.run()];
    endFirst();
    assert.equal(await early, 0);
    (await begun(2))();
    assert.deepEqual(await Promise.all(late), [1, 1, 1]);
    assert.equal(runs, 2);
  });

  test('a run that fails concerns those that shared it, and not the next', async () => {
    world.state = -1;
    const failing = shared.run();
    const end = await begun(3);
    world.state = 2;
    const next = shared.run();
    end();
    await assert.rejects(failing, /state -1/);
    (await begun(4))();
    assert.equal(await next, 2);
  });
});
