import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
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

/** Types commands, one after the other, each of which must succeed. */
export async function typeAll(commands: readonly string[]): Promise<void> {
  for (const command of commands) {
    const { status, stderr } = await type(command);
    assert.equal(status, 0, stderr);
  }
}

/** What a page has in the place of names, such as NODE. */
type Names = Readonly<Record<string, string>>;

/** The one command of a page that has these words, with names in their places. */
export function commandOfPage(page: string, words: RegExp, names: Names): string {
  const blocks = readFileSync(join(root, page), 'utf8').matchAll(/```sh\n(.*?)```/gs);
  const commands = [...blocks].flatMap(([, block = '']) => block.trim().split('\n'));
  const [command, ...others] = commands.filter((line) => words.test(line));
  assert.ok(command !== undefined && others.length === 0, `${page} has no one command ${words}`);
  return Object.entries(names).reduce((text, [word, name]) => text.replace(word, name), command);
}

/** Types it; what it printed. */
export async function typeOfPage(page: string, words: RegExp, names: Names): Promise<string> {
  const command = commandOfPage(page, words, names);
  const { status, stderr, stdout } = await type(command);
  assert.equal(status, 0, `${command}: ${stderr}`);
  return stdout;
}
