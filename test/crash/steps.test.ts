import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type StepName, stepNames } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from './bundle.ts';
import { interruptions, operations } from './operations/all.ts';
import { Rehearsal, type Way, ways } from './rehearsal.ts';

test('T04: every step is passed by an operation that is interrupted at it', () => {
  const covered = new Set(operations.flatMap(interruptions));
  assert.deepEqual([...covered].sort(), [...stepNames].sort());
});

describe('T01 T02 T04 T05: kill -9 before and after every step', { concurrency: 2 }, () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  for (const operation of operations) {
    test(operation.name, async (t) => {
      let rehearsal: Rehearsal | undefined;
      let kills = 0;
      /** A failed try leaves its node in disorder: the next one gets a new node. */
      const onNode = (name: string, work: (rehearsal: Rehearsal) => Promise<void>) =>
        t.test(name, async () => {
          rehearsal ??= await Rehearsal.open(operation, command);
          try {
            await work(rehearsal);
          } catch (error) {
            await rehearsal[Symbol.asyncDispose]();
            rehearsal = undefined;
            throw error;
          }
        });

      const startedMs = performance.now();
      try {
        await onNode('passes its steps and no others', (node) => node.checkSteps());
        for (const { point, way } of tries(interruptions(operation))) {
          await onNode(`killed ${point.when} ${point.step}, then ${way}`, (node) => node.crash(point, way));
          kills++;
        }
        await onNode('stops in order, and nothing is left', (node) => node.end());
      } finally {
        await rehearsal?.[Symbol.asyncDispose]();
      }
      t.diagnostic(`${operation.name}: ${kills} kills in ${((performance.now() - startedMs) / 1000).toFixed(1)} s`);
    });
  }
});

function tries(steps: readonly StepName[]) {
  return steps.flatMap((step) =>
    (['before', 'after'] as const).flatMap((when) => ways.map((way: Way) => ({ point: { when, step }, way }))),
  );
}
