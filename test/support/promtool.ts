import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const cacheDirectory = fileURLToPath(new URL('../../.cache', import.meta.url));

/**
 * Prometheus' own checker of rules: the machine's, or the one in Debian's package, which is unpacked beside the project
 * and not installed.
 */
export function findPromtool(): string {
  const cached = join(cacheDirectory, 'promtool');
  if (existsSync(cached)) return cached;
  if (spawnSync('promtool', ['--version']).status === 0) return 'promtool';
  mkdirSync(cacheDirectory, { recursive: true });
  const directory = mkdtempSync(join(cacheDirectory, 'promtool-'));
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
    renameSync(join(directory, 'tree', 'usr', 'bin', 'promtool'), cached);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  return cached;
}
