import { randomBytes } from 'node:crypto';
import { link, open, readdir, stat, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { format } from '../../command/mkfs.ts';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';
import { DirectorySync, resizeFile, syncFile } from '../../kernel/file/file.ts';
import { lockExclusively } from '../../kernel/process/lock.ts';
import { InternalError } from '../../volume/errors.ts';
import { step } from '../../volume/step.ts';
import { minimumLocationBytes, tooSmall } from './format.ts';
import type { Trouble } from './trouble.ts';

/**
 * Makes a sparse file with XFS in it, unless the file is there already. It is made under a separate name, locked, and
 * then gets its place by link(2), which never replaces anything: it is whole and locked from the moment at which it is
 * visible. Of several drivers that make it at a time one succeeds, however long another one stalls, and the others find
 * it there.
 * @returns the lock on the file, if it was made here
 */
export async function makeBackingFile(location: Trouble, sizeBytes: bigint): Promise<Descriptor | undefined> {
  const { queue, path, poolName } = location;
  if (await exists(queue, path)) return undefined;
  if (sizeBytes < minimumLocationBytes) throw tooSmall(poolName, path, sizeBytes);
  const draft = `${path}.${randomBytes(6).toString('hex')}.new`;
  try {
    const lock = await step('open/draft', () => makeDraft(queue, draft, sizeBytes));
    try {
      await step('open/commit', async () => {
        await queue.run(() => link(draft, path));
        await new DirectorySync().sync(queue, dirname(path));
      });
      return lock;
    } catch (error) {
      await lock[Symbol.asyncDispose]();
      throw error;
    }
  } catch (error) {
    // Another driver was faster, and has perhaps removed our draft as a leftover (below).
    if (isErrno(error, 'EEXIST') || (await exists(queue, path))) return undefined;
    throw error;
  } finally {
    await queue.run(() => unlink(draft)).catch(() => undefined);
  }
}

async function makeDraft(queue: DiskQueue, draft: string, sizeBytes: bigint): Promise<Descriptor> {
  await queue.run(async () => (await open(draft, 'wx', 0o600)).close());
  const lock = await lockExclusively(queue, draft);
  if (lock === undefined) throw new InternalError(`${draft} has just been made, and another program has locked it.`);
  try {
    await resizeFile(queue, draft, sizeBytes);
    const request = { path: draft, fsType: 'xfs', sizeBytes, blockSizeBytes: 512, extraArguments: [] } as const;
    await queue.watch(() => format(request));
    await syncFile(queue, draft);
    return lock;
  } catch (error) {
    await lock[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Removes drafts of other drivers that were killed or stalled; older drivers made them as `.new`. The caller has the
 * lock on the file: a driver that still works on a draft finds that gone, and the file in its place.
 */
export async function removeDrafts(queue: DiskQueue, path: string): Promise<void> {
  const directory = dirname(path);
  const name = basename(path);
  const isDraft = (entry: string) =>
    entry.startsWith(`${name}.`) && /^(\.[0-9a-f]{12})?\.new$/.test(entry.slice(name.length));
  for (const entry of (await queue.run(() => readdir(directory))).filter(isDraft)) {
    await queue.run(() => unlink(join(directory, entry))).catch(ignoreMissing);
  }
}

/** True if something lies at a path; a path that leads through a plain file leads to nothing. */
export async function exists(queue: DiskQueue, path: string): Promise<boolean> {
  try {
    await queue.run(() => stat(path));
    return true;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return false;
    throw error;
  }
}
