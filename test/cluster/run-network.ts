import { setNetworkCluster } from './harness/network/current.ts';
import { leftOnNetwork } from './harness/network/left-on-network.ts';
import { NetworkCluster } from './harness/network/network-cluster.ts';
import { runFiles } from './harness/run-files.ts';

/* Runs test files in a Kubernetes of one node or two that are virtual machines, beside one with servers of storage: see run.ts. */

await runFiles(process.argv.slice(2), {
  name: 'network',
  start: () => NetworkCluster.start(),
  async prepare(cluster) {
    setNetworkCluster(cluster);
  },
  leftovers: leftOnNetwork,
});
