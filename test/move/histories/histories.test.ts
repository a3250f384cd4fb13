import { describe, test } from 'node:test';
import { runHistory } from './history.ts';

/** With HOLDFAST_TEST_HISTORIES, that many from HOLDFAST_TEST_SEED on, and each must have a way out; otherwise a few that are always the same. */
const { HOLDFAST_TEST_HISTORIES: count, HOLDFAST_TEST_SEED: first } = process.env;
const options = count === undefined ? { length: 40, requiresWayOut: false } : { length: 70, requiresWayOut: true };
const from = count === undefined ? 1 : Number(first ?? Date.now() % 1_000_000);

describe("a volume that moves between nodes and pools, whatever happens to disks, nodes, controllers, and on an operator's word", () => {
  for (let seed = from; seed < from + Number(count ?? 8); seed++) {
    test(`can be used in one place at most, and no later copy of it is lost: HOLDFAST_TEST_SEED=${seed}`, async () => {
      await runHistory(seed, { ...options, sharesBlocks: seed % 2 === 1 });
    });
  }
});
