import { once } from 'node:events';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

interface Suite<T extends AsyncDisposable> {
  readonly name: string;
  readonly start: () => Promise<T>;
  /** What is done once it is up, before the tests. */
  readonly prepare: (cluster: T) => Promise<void>;
  /** What is still there after the tests, a line each. */
  readonly leftovers: (cluster: T) => Promise<string[]>;
}

/** Runs test files in a Kubernetes of their own, and says what came of it. */
export async function runFiles<T extends AsyncDisposable>(files: readonly string[], suite: Suite<T>): Promise<void> {
  const startedMs = performance.now();
  const seconds = () => `${((performance.now() - startedMs) / 1000).toFixed(0)} s`;
  const counts = { passed: 0, failed: 0, skipped: 0 };
  {
    await using cluster = await suite.start();
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => void end(cluster));
    }
    await suite.prepare(cluster);
    console.log(`${suite.name}: up after ${seconds()}`);
    await runTests(files, counts);
    const left = await suite.leftovers(cluster);
    for (const line of left) console.log(`LEFT BEHIND: ${line}`);
    counts.failed += left.length;
  }
  const { passed, failed, skipped } = counts;
  console.log(`${suite.name}: ${passed} passed, ${failed} failed, ${skipped} skipped, ${seconds()}`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
}

async function runTests(files: readonly string[], counts: Counts): Promise<void> {
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
  const text = stream.compose(spec);
  text.on('data', (piece) => process.stdout.write(piece));
  await Promise.race([once(text, 'end'), lastTest(stream)]);
}

/** node:test itself ends with the process, which what a cluster has open keeps alive. */
function lastTest(stream: ReturnType<typeof run>): Promise<void> {
  return new Promise((resolve) => {
    let waiting = 0;
    stream.on('test:enqueue', ({ nesting }) => {
      if (nesting === 0) waiting += 1;
    });
    stream.on('test:complete', ({ nesting }) => {
      if (nesting === 0) waiting -= 1;
      // The next file may be on its way.
      setTimeout(() => waiting === 0 && resolve(), 1000).unref();
    });
  });
}

async function end(cluster: AsyncDisposable): Promise<void> {
  try {
    await cluster[Symbol.asyncDispose]();
  } finally {
    process.exit(1);
  }
}
