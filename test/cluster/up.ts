import { Cluster } from './harness/cluster.ts';
import { untilTold } from './harness/waiting.ts';

/** A cluster to try things in, until Ctrl-C. */
await using cluster = await Cluster.start();
await cluster.driver.install();
console.log(`export KUBECONFIG=${cluster.server.kubeconfig('admin')}\nCtrl-C ends it.`);
await untilTold();
