import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { Cluster } from './harness/cluster.ts';
import { setCluster } from './harness/current.ts';
import { leftovers } from './harness/leftovers.ts';

/*
 * npm run test:cluster [-- word …]: the tests whose files have one of the words in their names, or all, in a Kubernetes of
 * their own on this machine.
 */

const directory = import.meta.dirname;
const words = process.argv.slice(2);
const files = readdirSync(directory)
  .filter((name) => name.endsWith('.test.ts'))
  .filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
  .map((name) => join(directory, name));

const startedMs = performance.now();
const seconds = () => `${((performance.now() - startedMs) / 1000).toFixed(0)} s`;
const counts = { passed: 0, failed: 0, skipped: 0 };

{
  await using cluster = await Cluster.start();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void cluster[Symbol.asyncDispose]().finally(() => process.exit(1)));
  }
  await cluster.driver.install();
  console.log(`cluster: up after ${seconds()}`);
  setCluster(cluster);
  await runTests();
  const left = await leftovers(cluster.kubectl, cluster.driver);
  for (const line of left) console.log(`LEFT BEHIND: ${line}`);
  counts.failed += left.length;
}
console.log(`cluster: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped, ${seconds()}`);
process.exitCode = counts.failed === 0 && counts.passed > 0 ? 0 : 1;

async function runTests(): Promise<void> {
  // In this very process, where the cluster is; one after the other, since each looks for what is left.
  const stream = run({ files, isolation: 'none', concurrency: 1 });
  stream.on('test:pass', ({ skip, details }) => {
    if (details.type === 'suite') return;
    if (skip === undefined || skip === false) counts.passed += 1;
    else counts.skipped += 1;
  });
  stream.on('test:fail', () => {
    counts.failed += 1;
  });
  for await (const text of stream.compose(spec)) process.stdout.write(text);
}
