import type { NetworkCluster } from './network-cluster.ts';

let current: NetworkCluster | undefined;

/** The cluster of virtual machines that all tests of a run share. */
export function networkCluster(): NetworkCluster {
  if (current === undefined) throw new Error('there is no cluster: npm run test:cluster -- network starts one');
  return current;
}

export function setNetworkCluster(started: NetworkCluster): void {
  current = started;
}
