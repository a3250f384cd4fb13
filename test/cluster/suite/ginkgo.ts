import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One run of the suite. */
export interface SuiteRun {
  readonly programs: string;
  readonly kubeconfig: string;
  /** The file that names the images of this machine. */
  readonly repositories: string;
  /** The file that describes the driver. */
  readonly definition: string;
  /** A regular expression on top of "External.Storage". */
  readonly focus: string;
  /** What the suite calls slow or disruptive, as well. */
  readonly withSlow: boolean;
  readonly processes: string;
  readonly logFile: string;
}

/** Runs Kubernetes' tests of a storage driver to their end; all that they printed. */
export async function runSuite(run: SuiteRun): Promise<string> {
  // Some of the tests start kubectl.
  const path = `${run.programs}:${process.env['PATH']}`;
  const environment = { ...process.env, PATH: path, KUBE_TEST_REPO_LIST: run.repositories };
  const ginkgo = spawn(
    'setpriv',
    [
      ...['--pdeathsig', 'SIGKILL', join(run.programs, 'ginkgo'), '--no-color', '--timeout=6h'],
      `--procs=${run.processes}`,
      `--focus=External.Storage.*${run.focus}`,
      ...(run.withSlow ? [] : ['--skip=\\[Slow\\]|\\[Disruptive\\]']),
      ...[join(run.programs, 'e2e.test'), '--', `--kubeconfig=${run.kubeconfig}`],
      `--storage.testdriver=${run.definition}`,
      '--disable-log-dump',
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], env: environment },
  );
  const log = createWriteStream(run.logFile);
  for (const stream of [ginkgo.stdout, ginkgo.stderr]) stream.pipe(log, { end: false });
  const stop = () => ginkgo.kill('SIGINT');
  process.once('SIGINT', stop);
  await once(ginkgo, 'close');
  process.off('SIGINT', stop);
  log.end();
  await once(log, 'finish');
  return readFileSync(run.logFile, 'utf8');
}
