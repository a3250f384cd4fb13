import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const cacheDirectory = fileURLToPath(new URL('../../.cache', import.meta.url));

/** Prometheus' own checker of rules. */
export function findPromtool(): string {
  return findPrometheusProgram('promtool');
}

/**
 * A program of Prometheus: the machine's, or the one in Debian's package, which is unpacked beside the project and not
 * installed.
 */
export function findPrometheusProgram(name: 'prometheus' | 'promtool'): string {
  const cached = join(cacheDirectory, name);
  if (existsSync(cached)) return cached;
  if (spawnSync(name, ['--version']).status === 0) return name;
  mkdirSync(cacheDirectory, { recursive: true });
  const directory = mkdtempSync(join(cacheDirectory, `${name}-`));
  try {
    const download = () => execFileSync('apt-get', ['-q', 'download', 'prometheus'], { cwd: directory, stdio: 'pipe' });
    try {
      download();
    } catch {
      execFileSync('apt-get', ['-q', 'update'], { stdio: 'pipe' });
      download();
    }
    const archive = readdirSync(directory).find((name) => name.endsWith('.deb')) ?? '';
    execFileSync('dpkg-deb', ['--extract', archive, 'tree'], { cwd: directory });
    renameSync(join(directory, 'tree', 'usr', 'bin', name), cached);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  return cached;
}
