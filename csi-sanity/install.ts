import { spawnSync } from 'node:child_process';
import { accessSync, constants, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

export const csiSanityVersion = 'v5.5.0';

const goPackage = `github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@${csiSanityVersion}`;

/** The path of csi-sanity, built with Go into the user's cache the first time. */
export function installCsiSanity(): string {
  const cache = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  // A directory for each version, so that an older one is never taken for this one.
  const bin = join(cache, 'holdfast', 'bin', `csi-sanity-${csiSanityVersion}`);
  const program = join(bin, 'csi-sanity');
  if (isExecutable(program)) return program;
  mkdirSync(bin, { recursive: true });
  console.error(`sanity: building csi-sanity ${csiSanityVersion} into ${bin} (a minute, once)`);
  const { status, error } = spawnSync('go', ['install', goPackage], {
    // Output goes to standard error as it comes: a first build downloads for a while.
    stdio: ['ignore', 2, 2],
    env: { ...process.env, GOBIN: bin },
  });
  if (error !== undefined && 'code' in error && error.code === 'ENOENT') {
    throw new Error(
      'Go is not installed: csi-sanity needs 1.25 or newer, from https://go.dev/dl or your distribution.',
    );
  }
  if (status !== 0) throw new Error(`go install ${goPackage} failed (exit code ${status}); its own words are above.`);
  return program;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
