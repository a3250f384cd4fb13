import { Cluster } from './harness/cluster.ts';
import { DeviceCluster } from './harness/devices/device-cluster.ts';
import { Fleet } from './harness/fleet/fleet.ts';
import { untilTold } from './harness/waiting.ts';

/** A cluster to try things in, until Ctrl-C: of one node, of three (`up.ts fleet`), or of one with disks (`up.ts devices`). */
const [kind] = process.argv.slice(2);
if (kind === 'fleet') {
  await using fleet = await Fleet.start();
  await fleet.driver.install();
  await told(fleet.kubeconfig);
} else if (kind === 'devices') {
  await using cluster = await DeviceCluster.start();
  await cluster.driver.install();
  await told(cluster.kubeconfig);
} else {
  await using cluster = await Cluster.start();
  await cluster.driver.install();
  await told(cluster.server.kubeconfig('admin'));
}

async function told(kubeconfig: string): Promise<void> {
  console.log(`export KUBECONFIG=${kubeconfig}\nCtrl-C ends it.`);
  await untilTold();
}
