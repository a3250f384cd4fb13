import { spawn } from 'node:child_process';
import { driverCommand } from './driver.ts';

export interface CommandOutcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Types `holdfast …` and waits for its end. */
export function holdfast(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  options: { readonly command?: readonly string[]; readonly cwd?: string; readonly uid?: number } = {},
): Promise<CommandOutcome> {
  const [program = '', ...leading] = options.command ?? driverCommand;
  const child = spawn(program, [...leading, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: options.cwd ?? '/',
    env: environment,
    ...(options.uid !== undefined && { uid: options.uid, gid: options.uid }),
  });
  const text = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text.stdout += chunk;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    text.stderr += chunk;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, ...text }));
  });
}
