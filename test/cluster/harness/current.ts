import type { Cluster } from './cluster.ts';

let current: Cluster | undefined;

/** The cluster that all tests of a run share. */
export function cluster(): Cluster {
  if (current === undefined) throw new Error('there is no cluster: npm run test:cluster starts one');
  return current;
}

export function setCluster(started: Cluster): void {
  current = started;
}
