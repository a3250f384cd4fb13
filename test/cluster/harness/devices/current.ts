import type { DeviceCluster } from './device-cluster.ts';

let current: DeviceCluster | undefined;

/** The cluster in a virtual machine that all tests of a run share. */
export function deviceCluster(): DeviceCluster {
  if (current === undefined) throw new Error('there is no cluster: npm run test:cluster -- devices starts one');
  return current;
}

export function setDeviceCluster(started: DeviceCluster): void {
  current = started;
}
