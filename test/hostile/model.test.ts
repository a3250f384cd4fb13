import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { buildDriver } from '../crash/bundle.ts';
import { type Stage, sequences } from './commands.ts';
import { undoAll } from './fixture.ts';
import { HostileNode } from './hostile-node.ts';
import { Actor, type Model } from './model.ts';
import { howToRepeat, times, withoutShrinking } from './runs.ts';

test('K01 T04 T05: whatever the order of calls, hostile ones and kills, the node is as a simple model says', async (t) => {
  t.diagnostic(howToRepeat);
  using command = await buildDriver();
  await using hostile = await HostileNode.open(command);
  let count = 0;
  const property = fc.asyncProperty(sequences, async (commands) => {
    const actors = [
      new Actor(hostile.node, 'first', false),
      new Actor(hostile.node, 'second', false),
      new Actor(hostile.node, 'third', true),
    ];
    const stage: Stage = { hostile, actors };
    const model: Model = new Map();
    await fc.asyncModelRun(() => ({ model, real: stage }), commands);
    count += [...commands].length;
    await hostile.checkConsistent();
    await undoAll(hostile.node);
    await hostile.checkEmpty();
  });
  await fc.assert(property, withoutShrinking(12));
  assert.ok(count > 0);
  t.diagnostic(`${times(12)} sequences, ${count} commands`);
  await hostile.stop();
});
