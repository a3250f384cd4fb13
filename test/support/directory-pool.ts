import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { type DirectoryPoolOptions, openDirectoryBackend } from '../../src/pool/kinds/directory/open.ts';
import { openOver } from '../../src/pool/open.ts';
import type { Scratch } from './scratch.ts';
import { type TestPoolOptions, testSettings } from './test-pool.ts';

export type DirectoryTestOptions = TestPoolOptions<DirectoryPoolOptions>;

/** Opens the directory pool of a scratch directory. */
export function openTestDirectories(
  scratch: Pick<Scratch, 'join'>,
  options: DirectoryTestOptions = {},
): Promise<Catalog> {
  const chosen = { ...testSettings(scratch), path: scratch.join('pool'), quota: 'whenAvailable', ...options } as const;
  return openOver(() => openDirectoryBackend(chosen), chosen);
}

/** The same in an XFS of its own, whose files can share blocks. It is made and mounted at the first opening. */
export function openTestDirectoriesOnXfs(
  scratch: Pick<Scratch, 'join'>,
  options: DirectoryTestOptions = {},
): Promise<Catalog> {
  return openTestDirectoriesOn('xfs', scratch, options);
}

export function openTestDirectoriesOn(
  fsType: 'xfs' | 'btrfs',
  scratch: Pick<Scratch, 'join'>,
  options: DirectoryTestOptions = {},
): Promise<Catalog> {
  const [image, mountPoint] = [scratch.join(`${fsType}.img`), scratch.join(fsType)];
  if (!existsSync(image)) {
    writeFileSync(image, '');
    truncateSync(image, 4 * 2 ** 30);
    execFileSync(`mkfs.${fsType}`, ['-q', image]);
    mkdirSync(mountPoint);
    execFileSync('mount', ['-o', 'loop', image, mountPoint]);
  }
  return openTestDirectories(scratch, { path: `${mountPoint}/pool`, ...options });
}
