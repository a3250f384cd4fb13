import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type StepName, stepNames } from '../../src/volume/step.ts';
import { CallError } from '../support/client.ts';
import { Scratch } from '../support/scratch.ts';
import { buildDriver, type DriverCommand } from './bundle.ts';
import { nodeWithFilePool } from './crash-node.ts';
import { operations } from './operations.ts';
import { Rehearsal, type Way, ways } from './rehearsal.ts';

/** Steps that no call comes to yet, and the RPC that will; undefined: it will be an operator's command. */
const notReached = new Map<
  StepName,
  'CreateSnapshot' | 'ControllerModifyVolume' | 'ControllerPublishVolume' | undefined
>([
  ['create/clone', 'CreateSnapshot'],
  ['create/identity', 'CreateSnapshot'],
  ['snapshot/directory', 'CreateSnapshot'],
  ['snapshot/cut', 'CreateSnapshot'],
  ['snapshot/record', 'CreateSnapshot'],
  ['snapshot/commit', 'CreateSnapshot'],
  ['snapshot/remove', 'CreateSnapshot'],
  ['group/commit', 'CreateSnapshot'],
  ['group/remove', 'CreateSnapshot'],
  ['modify/data', 'ControllerModifyVolume'],
  ['modify/record', 'ControllerModifyVolume'],
  ['publication/record', 'ControllerPublishVolume'],
  ['restore/commit', undefined],
]);

test('T04: every step that a call comes to is passed by an operation that is interrupted at it', () => {
  const covered = [...operations.flatMap(({ steps }) => steps), ...notReached.keys()];
  assert.deepEqual([...new Set(covered)].sort(), [...stepNames].sort());
  assert.deepEqual(
    operations.flatMap(({ steps }) => steps.filter((step) => notReached.has(step))),
    [],
  );
});

test('T04: the steps that no operation passes belong to RPCs that are not offered', async () => {
  using command = await buildDriver();
  using scratch = new Scratch('crash');
  await using node = nodeWithFilePool(command, scratch);
  await node.start();
  for (const rpc of new Set(notReached.values())) {
    if (rpc === undefined) continue;
    const isUnimplemented = (error: unknown) => error instanceof CallError && error.code === 'UNIMPLEMENTED';
    await assert.rejects(node.client.controller[rpc]({}), isUnimplemented, `${rpc} is offered: interrupt it as well`);
  }
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
        for (const { point, way } of tries(operation.steps)) {
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

function tries(steps: (typeof operations)[number]['steps']) {
  return steps.flatMap((step) =>
    (['before', 'after'] as const).flatMap((when) => ways.map((way: Way) => ({ point: { when, step }, way }))),
  );
}
