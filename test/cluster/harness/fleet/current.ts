import type { Fleet } from './fleet.ts';

let current: Fleet | undefined;

/** The cluster of three nodes that all tests of a run share. */
export function fleet(): Fleet {
  if (current === undefined) throw new Error('there is no fleet: npm run test:cluster -- fleet starts one');
  return current;
}

export function setFleet(started: Fleet): void {
  current = started;
}
