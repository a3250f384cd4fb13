import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type Descriptor, openFile, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing, isErrno, KernelError } from '../call/errno.ts';
import { invoke, type Lent, libcCall } from '../call/libc.ts';
import { statusOf } from './path.ts';
import { makeRemovable, writeProject } from './project-id.ts';
import { nextNames, openEntry, openSubdirectory, type TreeName } from './tree.ts';

const unlinkatCall = libcCall<readonly [Lent, Uint8Array, number]>(
  'int unlinkat(int dirfd, const void *path, int flags)',
);
const renameatCall = libcCall<readonly [Lent, Uint8Array, Lent, Uint8Array]>(
  'int renameat(int from, const void *path, int to, const void *newPath)',
);
const AT_REMOVEDIR = 0x200;
const ENOTEMPTY = 39;

/** How many nested directories are open at a time; deeper ones are moved up first. */
const openAtOnce = 32;
/** How often a directory is read: somebody who still has it open may be making files there. */
const mostPasses = 100;

/**
 * Unlinks something in a directory and everything below it, however large, deep, or marked as immutable. If this is
 * interrupted, removing everything in the directory finishes it: too deep directories were moved up into it.
 * @throws KernelError EXDEV or EBUSY if something is mounted there: the contents of the mount are left alone
 */
export async function removeTree(
  queue: DiskQueue,
  parent: Descriptor,
  name: string,
  signal?: AbortSignal,
): Promise<void> {
  const waiting = [nameOf(name)];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) await remove(parent, next, 0);

  async function remove(directory: Descriptor, entry: TreeName, depth: number): Promise<void> {
    signal?.throwIfAborted();
    // Tried without asking first whether it is a directory: the answer could be wrong a moment later.
    if ((await unlink(directory, entry, 0)) === 'directory') await removeDirectory(directory, entry, depth);
  }

  async function removeDirectory(directory: Descriptor, entry: TreeName, depth: number): Promise<void> {
    for (let pass = 1; ; pass++) {
      {
        await using opened = await openSubdirectory(queue, directory, entry).catch(ignoreMissing);
        if (opened === undefined) return;
        if (depth >= openAtOnce) return await moveUp(directory, entry);
        await empty(opened, depth);
      }
      if ((await unlink(directory, entry, AT_REMOVEDIR)) === 'gone') return;
      if (pass === mostPasses) throw new KernelError({ syscall: 'unlinkat', errno: ENOTEMPTY, path: directory.path });
    }
  }

  async function empty(directory: Descriptor, depth: number): Promise<void> {
    for (;;) {
      const names = await nextNames(queue, directory);
      if (names.length === 0) return;
      for (const entry of names) await remove(directory, entry, depth + 1);
    }
  }

  async function moveUp(directory: Descriptor, entry: TreeName): Promise<void> {
    const upper = nameOf(`deep.${randomBytes(6).toString('hex')}`);
    const path = `${directory.path}/${entry.text}`;
    const attempt = () => invoke(queue, renameatCall, [directory, entry.bytes, parent, upper.bytes], path);
    await attempt().catch(async (error) => {
      if (!isErrno(error, 'EXDEV')) throw error;
      // The directory has a quota project, and refuses what is in another one.
      await writeProject(queue, parent, { id: 0, isInherited: false });
      await attempt();
    });
    waiting.push(upper);
  }

  async function unlink(
    directory: Descriptor,
    entry: TreeName,
    flags: number,
  ): Promise<'gone' | 'directory' | 'not empty'> {
    const path = `${directory.path}/${entry.text}`;
    const attempt = () => invoke(queue, unlinkatCall, [directory, entry.bytes, flags], path);
    try {
      await attempt().catch(async (error) => {
        if (!isErrno(error, 'EPERM')) throw error;
        await free(directory, entry);
        await attempt();
      });
      return 'gone';
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return 'gone';
      if (isErrno(error, 'EISDIR')) return 'directory';
      if (isErrno(error, 'ENOTEMPTY', 'EEXIST')) return 'not empty';
      throw error;
    }
  }

  /** Clears the flags of both: an immutable directory keeps its entries. */
  async function free(directory: Descriptor, entry: TreeName): Promise<void> {
    await makeRemovable(queue, directory);
    await using found = await openEntry(queue, directory, entry).catch(ignoreMissing);
    if (found === undefined) return;
    const { kind } = await statusOf(queue, found);
    if (kind !== 'file' && kind !== 'directory') return;
    await using file = await openReadOnly(queue, found);
    await makeRemovable(queue, file);
  }
}

function nameOf(text: string): TreeName {
  return { bytes: Buffer.from(`${text}\0`), text };
}

/** Empties a directory of ours, but for the names that are to stay. Names there are text. */
export async function emptyDirectory(
  queue: DiskQueue,
  path: string,
  isLeft: (name: string) => boolean,
  signal?: AbortSignal,
): Promise<void> {
  await using directory = await openFile(queue, path, constants.O_RDONLY | constants.O_DIRECTORY);
  for (;;) {
    const names = await nextNames(queue, directory);
    if (names.length === 0) return;
    for (const { text } of names) if (!isLeft(text)) await removeTree(queue, directory, text, signal);
  }
}
