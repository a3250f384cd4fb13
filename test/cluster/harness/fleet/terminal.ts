import { spawn } from 'node:child_process';
import { delimiter, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fleet } from './current.ts';

const plugins = fileURLToPath(new URL('../../../../deploy/kubectl', import.meta.url));
const root = fileURLToPath(new URL('../../../..', import.meta.url));

export interface Typed {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number | null;
}

/** A command as an administrator types it in a copy of the project, with kubectl and its plugin installed. */
export function type(command: string): Promise<Typed> {
  const { kubeconfig, programs } = fleet();
  const path = [programs, plugins, process.env['PATH']].join(delimiter);
  return new Promise((resolve, reject) => {
    const child = spawn('sh', ['-c', command], {
      cwd: root,
      // kubectl keeps a cache at home.
      env: { PATH: path, KUBECONFIG: kubeconfig, HOME: dirname(kubeconfig) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
    child.once('error', reject);
    child.once('close', (status) => resolve({ stdout, stderr, status }));
  });
}
