import { after, before, describe, type TestContext, test } from 'node:test';
import type { CrashPoint, StepName } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from './bundle.ts';
import { CrashTable } from './crash-table.ts';
import { OpeningRehearsal } from './opening-rehearsal.ts';
import type { Operation } from './operation.ts';
import { operations } from './operations/all.ts';
import { type Opening, openings } from './operations/openings.ts';
import { type Recovery, Rehearsal, type Way, ways } from './rehearsal.ts';

/**
 * How much of the table of kills is run: each step once, after it, whatever operation passes it first, and then replay;
 * or each state of each operation, each way after it, and a second kill at each step of the start that repairs it.
 */
export type Extent = 'each step once' | 'everything';

/** Registers a test for each operation and opening, in a suite of that name. */
export function describeKills(name: string, extent: Extent): void {
  describe(name, { concurrency: 2 }, () => registerKills(extent));
}

function registerKills(extent: Extent): void {
  const isWhole = extent === 'everything';
  const chosenWays: readonly Way[] = isWhole ? ways : ['replay'];
  /** Steps that a sample has killed at already. */
  const met = new Set<StepName>();
  const pointsOf = (steps: readonly StepName[]): CrashPoint[] => {
    if (isWhole) return crashPoints(steps);
    const fresh = steps.filter((step) => !met.has(step));
    for (const step of fresh) met.add(step);
    return fresh.map((step) => ({ when: 'after', step }));
  };
  const table = new CrashTable();
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => {
    console.log(`${table}`);
    command[Symbol.dispose]();
  });

  for (const operation of operations) {
    const points = pointsOf(operation.steps);
    if (points.length > 0) test(operation.name, (t) => rehearse(t, operation, points));
  }
  for (const opening of openings) {
    const points = pointsOf(opening.steps);
    if (points.length > 0) test(opening.name, (t) => rehearseOpening(t, opening, points));
  }

  /** All kills on one node, one after the other. */
  async function rehearse(t: TestContext, operation: Operation, points: readonly CrashPoint[]): Promise<void> {
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
      const passes = (isWhole && rehearsal?.passes) || new Map<StepName, number>();
      const recoveries: Recovery[] = [];
      for (const point of [...points, ...laterPasses(passes)]) {
        for (const way of chosenWays) {
          await t.test(`killed ${describePoint(point)}, then ${way}`, () =>
            noted(operation.name, point, way, () => onNode((node) => node.crash(point, way))),
          );
          recoveries.push(...(rehearsal?.recoveries.splice(0) ?? []));
        }
      }
      for (const [point, inRecovery] of isWhole ? secondCrashes(operation, recoveries) : []) {
        const way = `killed again ${inRecovery.when} ${inRecovery.step}`;
        await t.test(`killed ${describePoint(point)}, ${way}, then replay`, () =>
          noted(operation.name, point, way, () => onNode((node) => node.crashTwice(point, inRecovery, 'replay'))),
        );
      }
      await t.test('stops in order, and nothing is left', () => onNode((node) => node.end()));
    } finally {
      await rehearsal?.[Symbol.asyncDispose]();
    }
  }

  /** Each kill on a node of its own. */
  async function rehearseOpening(t: TestContext, opening: Opening, points: readonly CrashPoint[]): Promise<void> {
    const onNode = async (work: (rehearsal: OpeningRehearsal) => Promise<void>) => {
      await using rehearsal = new OpeningRehearsal(opening, command);
      await work(rehearsal);
    };
    await t.test('passes its steps and no others', () => onNode((node) => node.checkSteps()));
    for (const point of points) {
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
}

/** Steps that an operation passes several times: the last of them, when others have come true. */
function laterPasses(passes: ReadonlyMap<StepName, number>): CrashPoint[] {
  const repeated = [...passes].filter(([, count]) => count > 1);
  return repeated.map(([step, pass]) => ({ when: 'after', step, pass }));
}

function describePoint({ pass, step, when }: CrashPoint): string {
  return `${when} ${step}${pass === undefined ? '' : `, pass ${pass}`}`;
}

/** Pairs of steps that have been met by a second crash, by whatever operation. */
const metTwice = new Set<string>();
/** Every start passes them, so they are met once for all. */
const everyStart: readonly StepName[] = ['open/grow'];

/** A crash, and one at each step of what a start does about it: each pair once among all operations. */
function secondCrashes({ steps: inOrder }: Operation, recoveries: readonly Recovery[]): [CrashPoint, CrashPoint][] {
  const purgeAt = inOrder.indexOf('remove/purge');
  return recoveries.flatMap(({ point, steps }) =>
    crashPoints([...steps]).flatMap((inRecovery): [CrashPoint, CrashPoint][] => {
      const { step, when } = inRecovery;
      // Unlinking goes on behind the call: how far that had come by then, and so what is left to a start, is left to chance.
      if (point.step === 'remove/purge' && step !== 'remove/purge') return [];
      // The same of a later step, and of a late pass of another: what was put away before it may be unlinked by then, or not.
      const isAfterPurge = purgeAt >= 0 && inOrder.indexOf(point.step) > purgeAt;
      if ((isAfterPurge || point.pass !== undefined) && step === 'remove/purge') return [];
      const key = `${everyStart.includes(step) ? 'any' : `${point.when} ${point.step}`}, ${when} ${step}`;
      if (metTwice.has(key)) return [];
      metTwice.add(key);
      return [[point, inRecovery]];
    }),
  );
}

/** Each state of the disk once: before a step it is as after the step before it. */
function crashPoints(steps: readonly StepName[]): CrashPoint[] {
  const [first] = steps;
  if (first === undefined) return [];
  return [{ when: 'before', step: first }, ...steps.map((step): CrashPoint => ({ when: 'after', step }))];
}
