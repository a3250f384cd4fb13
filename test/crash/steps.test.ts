import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import { type CrashPoint, type StepName, stepNames } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from './bundle.ts';
import { CrashTable } from './crash-table.ts';
import { OpeningRehearsal } from './opening-rehearsal.ts';
import type { Operation } from './operation.ts';
import { operations } from './operations/all.ts';
import { type Opening, openings } from './operations/openings.ts';
import { Rehearsal, ways } from './rehearsal.ts';

test('T04: every step is passed by an operation that is interrupted at it', () => {
  const covered = new Set([...operations, ...openings].flatMap(({ steps }) => steps));
  assert.deepEqual([...covered].sort(), [...stepNames].sort());
});

describe('T01 T02 T04 T05: kill -9 before and after every step', { concurrency: 2 }, () => {
  const table = new CrashTable();
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => {
    console.log(`${table}`);
    command[Symbol.dispose]();
  });

  for (const operation of operations) test(operation.name, (t) => rehearse(t, operation));
  for (const opening of openings) test(opening.name, (t) => rehearseOpening(t, opening));

  /** All kills on one node, one after the other. */
  async function rehearse(t: TestContext, operation: Operation): Promise<void> {
    let rehearsal: Rehearsal | undefined;
    /** A failed try leaves its node in disorder: the next one gets a new node. */
    const onNode = async (work: (rehearsal: Rehearsal) => Promise<void>) => {
      rehearsal ??= await Rehearsal.open(operation, command);
      try {
        await work(rehearsal);
      } catch (error) {
        await rehearsal[Symbol.asyncDispose]();
        rehearsal = undefined;
        throw error;
      }
    };
    try {
      await t.test('passes its steps and no others', () => onNode((node) => node.checkSteps()));
      for (const point of crashPoints(operation.steps)) {
        for (const way of ways) {
          await t.test(`killed ${point.when} ${point.step}, then ${way}`, () =>
            noted(operation.name, point, way, () => onNode((node) => node.crash(point, way))),
          );
        }
      }
      await t.test('stops in order, and nothing is left', () => onNode((node) => node.end()));
    } finally {
      await rehearsal?.[Symbol.asyncDispose]();
    }
  }

  /** Each kill on a node of its own. */
  async function rehearseOpening(t: TestContext, opening: Opening): Promise<void> {
    const onNode = async (work: (rehearsal: OpeningRehearsal) => Promise<void>) => {
      await using rehearsal = new OpeningRehearsal(opening, command);
      await work(rehearsal);
    };
    await t.test('passes its steps and no others', () => onNode((node) => node.checkSteps()));
    for (const point of crashPoints(opening.steps)) {
      await t.test(`killed ${point.when} ${point.step}, then started`, () =>
        noted(opening.name, point, 'start', () => onNode((node) => node.crash(point))),
      );
    }
  }

  async function noted(name: string, point: CrashPoint, way: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
      table.add(name, point, way, 'ok');
    } catch (error) {
      table.add(name, point, way, 'FAILED');
      throw error;
    }
  }
});

function crashPoints(steps: readonly StepName[]): CrashPoint[] {
  return steps.flatMap((step) => (['before', 'after'] as const).map((when) => ({ when, step })));
}
