import type { Parameters } from 'fast-check';

/** HOLDFAST_TEST_SEED repeats a run's choices, HOLDFAST_TEST_HOSTILE makes it so many times as long. */
export const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31)) | 0;
const factor = Number(process.env['HOLDFAST_TEST_HOSTILE'] ?? 1);

/** How much of something is done in this run, which may be a long one. */
export function times(count: number): number {
  return Math.max(1, Math.round(count * factor));
}

/** For properties of a driver that remembers what came before: another try with less is another story, so there is none. */
export function withoutShrinking<T>(runs: number): Parameters<T> {
  return { seed, numRuns: times(runs), endOnFailure: true };
}

/** For the report: how to do it again. */
export const howToRepeat = `HOLDFAST_TEST_SEED=${seed} HOLDFAST_TEST_HOSTILE=${factor} repeats this run`;
