import { setFleet } from './harness/fleet/current.ts';
import { Fleet } from './harness/fleet/fleet.ts';
import { leftovers } from './harness/leftovers.ts';
import { runFiles } from './harness/run-files.ts';

/* Runs test files in a Kubernetes of three nodes: see run.ts. */

await runFiles(process.argv.slice(2), {
  name: 'fleet',
  start: () => Fleet.start(),
  async prepare(fleet) {
    await fleet.driver.install();
    await fleet.driver.linked();
    setFleet(fleet);
  },
  leftovers: ({ kubectl, nodes }) => leftovers(kubectl, ...nodes),
});
