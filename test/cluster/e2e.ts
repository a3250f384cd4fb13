import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Cluster } from './harness/cluster.ts';
import { leftovers } from './harness/leftovers.ts';
import { buildPrograms, clusterPrograms, suitePrograms } from './harness/programs.ts';
import { waitFor } from './harness/waiting.ts';
import { driverDefinition } from './suite/definitions.ts';
import { runSuite } from './suite/ginkgo.ts';
import { makeSuiteImages } from './suite/images.ts';
import { outcomeOf } from './suite/outcome.ts';

/*
 * npm run test:e2e [-- --all] [--focus REGEX] [--processes N] [--filesystem NAME]: Kubernetes' own tests of storage drivers,
 * with ext4 and with XFS. --all has those that it calls slow or disruptive as well.
 */
const { values: options } = parseArgs({
  options: {
    all: { type: 'boolean', default: false },
    focus: { type: 'string', default: '' },
    processes: { type: 'string', default: '4' },
    filesystem: { type: 'string' },
  },
});
const classes = { ext4: 'holdfast', xfs: 'holdfast-xfs' };
const logs = fileURLToPath(new URL('../../.cache/e2e', import.meta.url));
mkdirSync(logs, { recursive: true });

const startedMs = performance.now();
const seconds = () => `${((performance.now() - startedMs) / 1000).toFixed(0)} s`;
const total = { passed: 0, failed: 0, machine: 0 };
{
  const programs = await buildPrograms([...clusterPrograms, ...suitePrograms]);
  await using cluster = await Cluster.start();
  // The suite makes contents of snapshots by hand, without the label that several nodes ask for.
  await cluster.driver.install('one');
  const directory = cluster.directory.makeDirectory('suite');
  const write = (name: string, content: object) => {
    writeFileSync(join(directory, name), JSON.stringify(content));
    return join(directory, name);
  };
  const repositories = write('repositories.yaml', { promoterE2eRegistry: 'localhost', gcRegistry: 'localhost' });
  for (const archive of await makeSuiteImages(programs, repositories, directory)) {
    await cluster.runtime.importImage(archive);
  }
  console.log(`e2e: up after ${seconds()}`);
  for (const [filesystem, storageClass] of Object.entries(classes)) {
    if (options.filesystem !== undefined && options.filesystem !== filesystem) continue;
    const logFile = join(logs, `${filesystem}.log`);
    const log = await runSuite({
      programs,
      kubeconfig: cluster.server.kubeconfig('admin'),
      repositories,
      definition: write(`${filesystem}.json`, driverDefinition(storageClass, filesystem)),
      focus: options.focus,
      withSlow: options.all,
      processes: options.processes,
      logFile,
    });
    const { passed, failed, machine, lines } = await outcomeOf(log, filesystem);
    for (const line of lines) console.log(line);
    console.log(`e2e ${filesystem}: ${passed} passed, ${failed} failed, ${machine} not on this machine; ${logFile}`);
    total.passed += passed;
    total.failed += failed;
    total.machine += machine;
  }
  total.failed += await tellLeftovers(cluster);
}
console.log(`e2e: ${total.passed} passed, ${total.failed} failed, ${total.machine} not on this machine, ${seconds()}`);
process.exitCode = total.failed === 0 && total.passed > 0 ? 0 : 1;

/** The suite itself does not look for them. */
async function tellLeftovers({ kubectl, driver }: Cluster): Promise<number> {
  try {
    await waitFor('nothing to be left', async () => {
      const lines = await leftovers(kubectl, driver);
      if (lines.length > 0) throw new Error(lines.join('\n'));
    });
    return 0;
  } catch (error) {
    console.log(`LEFT BEHIND: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  }
}
