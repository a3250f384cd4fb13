import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Architecture } from './architecture.ts';
import { output } from './program.ts';

/**
 * Debian 12 on purpose, not a newer one: filesystems made with its mkfs.xfs can be mounted by Linux 5.15, while those of
 * xfsprogs 6.5 and newer need 5.19 (large extent counters).
 */
const suite = 'bookworm';

/** Where packages come from. A snapshot of the archive makes a build of years ago possible again. */
export interface Archive {
  readonly mirror: string;
  readonly securityMirror: string;
}

export const debianArchive: Archive = {
  mirror: 'http://deb.debian.org/debian',
  securityMirror: 'http://deb.debian.org/debian-security',
};

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
  /** Its control file, which tells scanners of the image what is in it. */
  readonly control: string;
  /** Paths of what it brings, directories too. */
  readonly files: readonly string[];
}

/** Unpacks `wanted` and all that they need into `tree`, checked against Debian's signatures. Runs nothing of them. */
export function unpackPackages(
  tree: string,
  wanted: readonly string[],
  archive: Archive,
  architecture: Architecture,
): DebianPackage[] {
  const { mirror, securityMirror } = archive;
  const sources = [
    `deb ${mirror} ${suite} main`,
    `deb ${mirror} ${suite}-updates main`,
    `deb ${securityMirror} ${suite}-security main`,
  ];
  const options = [
    '--quiet',
    '--mode=root',
    '--variant=extract',
    `--architectures=${architecture}`,
    '--skip=cleanup/apt',
    '--format=directory',
  ];
  // A snapshot's signatures are as old as it is.
  const validity = '--aptopt=Acquire::Check-Valid-Until "false"';
  output('mmdebstrap', [...options, validity, `--include=${wanted.join(',')}`, suite, tree, ...sources]);
  const downloads = join(tree, 'var/cache/apt/archives');
  const names = readdirSync(downloads).filter((name) => name.endsWith('.deb'));
  const found = names.sort().map((name) => describe(join(downloads, name)));
  rmSync(downloads, { recursive: true });
  return found;
}

function describe(file: string): DebianPackage {
  const control = output('dpkg-deb', ['--field', file]);
  return {
    name: field(control, 'Package'),
    version: field(control, 'Version'),
    sha256: createHash('sha256').update(readFileSync(file)).digest('hex'),
    control,
    files: filesOf(file),
  };
}

function field(control: string, name: string): string {
  const value = new RegExp(`^${name}: (.+)$`, 'm').exec(control)?.[1];
  if (value === undefined) throw new Error(`a package without ${name}`);
  return value;
}

function filesOf(file: string): string[] {
  const lines = output('dpkg-deb', ['--contents', file]).split('\n');
  // mode owner size date time ./path [-> target | link to target]
  return lines.flatMap((line) => /^\S+ +\S+ +\d+ +\S+ +\S+ \.(\/.*?)(?: -> .*| link to .*)?$/.exec(line)?.[1] ?? []);
}
