import { spawnSync } from 'node:child_process';

/** Runs a program to its end and yields what it printed. @throws Error with its last words if it fails */
export function output(program: string, args: readonly string[], environment: Record<string, string> = {}): string {
  const { error, status, stderr, stdout } = spawnSync(program, args, {
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C.UTF-8', ...environment },
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (error !== undefined) throw new Error(`${program}: ${error.message}`);
  if (status !== 0) throw new Error(`${program} ${args[0] ?? ''} failed (${status}):\n${lastLines(stderr)}`);
  return stdout;
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-15).join('\n');
}

/** Installs Debian packages for programs that are missing: of each program, the package that brings it. */
export function installPrograms(needed: Readonly<Record<string, string>>): void {
  const missing = Object.entries(needed).filter(([program]) => spawnSync(program, ['--version']).error !== undefined);
  if (missing.length === 0) return;
  const packages = missing.map(([, name]) => name);
  console.error(`installing ${packages.join(' ')}`);
  output('apt-get', ['-q', 'update']);
  output('apt-get', ['-qy', 'install', '--no-install-recommends', ...packages], { DEBIAN_FRONTEND: 'noninteractive' });
}
