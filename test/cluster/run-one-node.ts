import { Cluster } from './harness/cluster.ts';
import { setCluster } from './harness/current.ts';
import { leftovers } from './harness/leftovers.ts';
import { runFiles } from './harness/run-files.ts';

/* Runs test files in a Kubernetes of one node: see run.ts. */

await runFiles(process.argv.slice(2), {
  name: 'cluster',
  start: () => Cluster.start(),
  async prepare(cluster) {
    await cluster.driver.install();
    setCluster(cluster);
  },
  leftovers: ({ kubectl, driver }) => leftovers(kubectl, driver),
});
