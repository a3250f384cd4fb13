import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Usage } from '../../scripts/options.ts';
import { buildPrograms, clusterPrograms, suitePrograms } from './harness/programs.ts';
import { waitFor } from './harness/waiting.ts';
import { driverDefinition } from './suite/definitions.ts';
import { runSuite } from './suite/ginkgo.ts';
import { makeSuiteImages } from './suite/images.ts';
import { outcomeOf } from './suite/outcome.ts';
import { type SuitePlace, startFleet, startOneNode } from './suite/places.ts';

const usage =
  new Usage(`Kubernetes' own tests of storage drivers, with ext4 and with XFS, on one node, or on three with the controller.
As root: npm run test:e2e -- [fleet] [options]
  --all                those that Kubernetes calls slow or disruptive, too
  --focus REGEX        only those whose names it matches
  --processes N        so many at a time (4)
  --filesystem NAME    ext4 or xfs alone
`);
const { positionals, values: options } = usage.read({
  allowPositionals: true,
  options: {
    all: { type: 'boolean', default: false },
    focus: { type: 'string', default: '' },
    processes: { type: 'string', default: '4' },
    filesystem: { type: 'string' },
  },
});
const [where, ...others] = positionals;
if ((where !== undefined && where !== 'fleet') || others.length > 0) {
  usage.refuse(`there is no ${positionals.join(' ')}`);
}
const classes = { ext4: 'holdfast', xfs: 'holdfast-xfs' };
if (options.filesystem !== undefined && !Object.hasOwn(classes, options.filesystem)) {
  usage.refuse(`--filesystem wants ${Object.keys(classes).join(' or ')}`);
}
const logs = fileURLToPath(new URL('../../.cache/e2e', import.meta.url));
mkdirSync(logs, { recursive: true });

const startedMs = performance.now();
const seconds = () => `${((performance.now() - startedMs) / 1000).toFixed(0)} s`;
const total = { passed: 0, failed: 0, machine: 0 };
const start = where === 'fleet' ? startFleet : startOneNode;
const name = where === 'fleet' ? 'e2e fleet' : 'e2e';
{
  const programs = await buildPrograms([...clusterPrograms, ...suitePrograms]);
  await using place = await start();
  const directory = place.makeDirectory('suite');
  const write = (file: string, content: object) => {
    writeFileSync(join(directory, file), JSON.stringify(content));
    return join(directory, file);
  };
  const repositories = write('repositories.yaml', { promoterE2eRegistry: 'localhost', gcRegistry: 'localhost' });
  for (const archive of await makeSuiteImages(programs, repositories, directory)) await place.importImage(archive);
  console.log(`${name}: up after ${seconds()}`);
  for (const [filesystem, storageClass] of Object.entries(classes)) {
    if (options.filesystem !== undefined && options.filesystem !== filesystem) continue;
    const logFile = join(logs, `${where === 'fleet' ? 'fleet-' : ''}${filesystem}.log`);
    const log = await runSuite({
      programs,
      kubeconfig: place.kubeconfig,
      repositories,
      definition: write(`${filesystem}.json`, driverDefinition(storageClass, filesystem, place.hasOneNode)),
      focus: options.focus,
      withSlow: options.all,
      processes: options.processes,
      logFile,
    });
    const { passed, failed, machine, lines } = await outcomeOf(log, { filesystem, hasOneNode: place.hasOneNode });
    for (const line of lines) console.log(line);
    console.log(
      `${name} ${filesystem}: ${passed} passed, ${failed} failed, ${machine} not on this machine; ${logFile}`,
    );
    total.passed += passed;
    total.failed += failed;
    total.machine += machine;
  }
  total.failed += await tellLeftovers(place);
}
console.log(
  `${name}: ${total.passed} passed, ${total.failed} failed, ${total.machine} not on this machine, ${seconds()}`,
);
process.exitCode = total.failed === 0 && total.passed > 0 ? 0 : 1;

/** The suite itself does not look for them. */
async function tellLeftovers(place: SuitePlace): Promise<number> {
  try {
    await waitFor('nothing to be left', async () => {
      const lines = await place.leftovers();
      if (lines.length > 0) throw new Error(lines.join('\n'));
    });
    return 0;
  } catch (error) {
    console.log(`LEFT BEHIND: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  }
}
