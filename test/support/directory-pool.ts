import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { type DirectoryPoolOptions, openDirectoryPool } from '../../src/pool/kinds/directory/open.ts';
import type { Scratch } from './scratch.ts';

const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Opens the directory pool of a scratch directory. */
export function openTestDirectories(scratch: Scratch, options: Partial<DirectoryPoolOptions> = {}): Promise<Catalog> {
  return openDirectoryPool({
    name: 'test',
    path: scratch.join('pool'),
    quota: 'whenAvailable',
    dataDirectory: scratch.join('data'),
    reserveBytes: undefined,
    overcommit: 1,
    defaultFilesystem: 'ext4',
    undeleteSeconds: 0,
    trimming: 'weekly',
    lockTimeoutMs: 0,
    queue: new DiskQueue('test', 4),
    log: quiet,
    ...options,
  });
}

/** The same in an XFS of its own, whose files can share blocks. It is made and mounted at the first opening. */
export function openTestDirectoriesOnXfs(
  scratch: Scratch,
  options: Partial<DirectoryPoolOptions> = {},
): Promise<Catalog> {
  const [image, mountPoint] = [scratch.join('xfs.img'), scratch.join('xfs')];
  if (!existsSync(image)) {
    writeFileSync(image, '');
    truncateSync(image, 4 * 2 ** 30);
    execFileSync('mkfs.xfs', ['-q', image]);
    mkdirSync(mountPoint);
    execFileSync('mount', ['-o', 'loop', image, mountPoint]);
  }
  return openTestDirectories(scratch, { path: `${mountPoint}/pool`, ...options });
}
