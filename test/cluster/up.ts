import { Cluster } from './harness/cluster.ts';
import { Fleet } from './harness/fleet/fleet.ts';
import { untilTold } from './harness/waiting.ts';

/** A cluster to try things in, until Ctrl-C: of one node, or of three (`up.ts fleet`). */
if (process.argv[2] === 'fleet') {
  await using fleet = await Fleet.start();
  await fleet.driver.install();
  await told(fleet.kubeconfig);
} else {
  await using cluster = await Cluster.start();
  await cluster.driver.install();
  await told(cluster.server.kubeconfig('admin'));
}

async function told(kubeconfig: string): Promise<void> {
  console.log(`export KUBECONFIG=${kubeconfig}\nCtrl-C ends it.`);
  await untilTold();
}
