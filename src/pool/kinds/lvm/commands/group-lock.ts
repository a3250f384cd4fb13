import { constants } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { openFile } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../../kernel/call/errno.ts';
import { isStillNamed, tryLock } from '../../../../kernel/process/lock.ts';
import { hostRoot } from '../../../host-program.ts';
import { type LvmRunner, lockDirectory } from './place.ts';

/** Longer than a command of LVM takes that does not wait itself. */
const pausesMs = [0, 10, 100, ...Array.from({ length: 20 }, () => 500)];

/** Held, as LVM holds it while it changes a group (flock(2); lib/misc/lvm-flock.c). */
export type GroupLock = AsyncDisposable;

/** @returns undefined if an LVM command is running in the group, and does not end */
export async function lockGroup(
  queue: DiskQueue,
  runner: Pick<LvmRunner, 'lockDirectory' | 'place'>,
  vgName: string,
): Promise<GroupLock | undefined> {
  const directory = runner.lockDirectory ?? `${runner.place === 'host' ? hostRoot : ''}${lockDirectory}`;
  const path = `${directory}/V_${vgName}`;
  try {
    for (const pauseMs of pausesMs) {
      await delay(pauseMs);
      const lock = await lockNow(queue, path);
      if (lock !== undefined) return lock;
    }
    return undefined;
  } catch (error) {
    // No LVM has ever taken one here.
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return { [Symbol.asyncDispose]: async () => undefined };
    throw error;
  }
}

/** LVM removes the file when it lets go: one that has lost its name keeps no other LVM out. */
async function lockNow(queue: DiskQueue, path: string): Promise<GroupLock | undefined> {
  const lock = await openFile(queue, path, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    if (await tryLock(queue, lock)) {
      if (await isStillNamed(queue, lock, path)) return lock;
    }
    await lock[Symbol.asyncDispose]();
    return undefined;
  } catch (error) {
    await lock[Symbol.asyncDispose]();
    if (isErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}
