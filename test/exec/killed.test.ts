import { after, describe, test } from 'node:test';
import type { CrashPoint, StepName } from '../../src/volume/step.ts';
import { ProgramDirectory } from '../support/programs.ts';
import { Scratch } from '../support/scratch.ts';
import { image, liveAndDie } from './life-and-death.ts';

/* The node service is killed before and after each step of the life of a program's volume. */

const directory = new ProgramDirectory();
after(() => directory[Symbol.dispose]());

/**
 * Before each step: after the one before it nothing else has changed.
 * @param runs calls of the program in such a life
 */
function points(runs: number, notes: number): CrashPoint[] {
  const passes: readonly (readonly [StepName, number])[] = [
    ['volume-note/write', 1],
    ['exec/note', notes],
    ['exec/run', runs],
    ['stage/mount', 1],
    ['unstage/unmount', 1],
    ['exec/forget', 1],
    ['volume-note/remove', 1],
  ];
  return passes.flatMap(([step, count]) =>
    Array.from({ length: count }, (_, index) => ({ when: 'before', step, pass: index + 1 }) as const),
  );
}

describe('a driver that is killed, with a program that attaches and mounts', () => {
  for (const point of points(9, 3)) {
    test(`${point.when} ${point.step} ${point.pass}: the next one leaves nothing`, () => {
      using scratch = new Scratch('killed');
      liveAndDie(scratch, { path: directory.example('loop') }, { 'options.image': image(scratch) }, point);
    });
  }
});

describe('a driver that is killed, with a program that mounts', () => {
  for (const point of points(4, 2)) {
    test(`${point.when} ${point.step} ${point.pass}: the next one leaves nothing`, () => {
      using scratch = new Scratch('killed');
      liveAndDie(scratch, { path: directory.example('tmpfs') }, {}, point);
    });
  }
});
