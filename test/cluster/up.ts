import { once } from 'node:events';
import { Cluster } from './harness/cluster.ts';

/** A cluster to try things in, until Ctrl-C. */
await using cluster = await Cluster.start();
console.log(`export KUBECONFIG=${cluster.server.kubeconfig('admin')}\nCtrl-C ends it.`);
await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
