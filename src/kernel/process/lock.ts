import { constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { constants as osConstants } from 'node:os';
import { type Descriptor, openFile, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { invoke, invokeNow, invokeNowUnless, type Lent, libcCall } from '../call/libc.ts';
import { type DeviceNumber, sameDevice } from '../device.ts';
import { statusBehind, statusOf } from '../file/path.ts';
import { readMountTable } from '../mount/mount-table.ts';

/** A process that holds a lock. */
export interface LockHolder {
  /** 0 if it is in a process namespace (another container) that we do not see. */
  readonly pid: number;
  /** Its command line; empty if it cannot be seen or is gone. */
  readonly command: string;
}

const LOCK_EX = 2;
const LOCK_NB = 4;
const F_UNLCK = 2;
const F_WRLCK = 1;
const F_SETSIG = 10;
const F_SETLEASE = 1024;
/** Ignored unless a process asks for it (signal(7)). */
const SIGURG = 23;

const flockCall = libcCall<readonly [Lent, number]>('int flock(int fd, int operation)');
const fcntlCall = libcCall<readonly [Lent, number, number]>('int fcntl(int fd, int command, long argument)');

/**
 * Answers if the path still names the open file: a lock on a file that lost its name, or was replaced, keeps no program
 * out.
 */
export async function isStillNamed(queue: DiskQueue, file: Descriptor, path: string): Promise<boolean> {
  const [held, named] = [await statusOf(queue, file), await statusBehind(queue, path)];
  return held.inode === named.inode && sameDevice(held.device, named.device);
}

/** Locks a file, directory or device while the descriptor is open; undefined if another program has it (flock(2)). */
export async function lockExclusively(queue: DiskQueue, path: string): Promise<Descriptor | undefined> {
  const descriptor = await openReadOnly(queue, path);
  try {
    if (await tryLock(queue, descriptor)) return descriptor;
    await descriptor[Symbol.asyncDispose]();
    return undefined;
  } catch (error) {
    await descriptor[Symbol.asyncDispose]();
    throw error;
  }
}

/** The same for an open file. @returns false if another program has it */
export async function tryLock(queue: DiskQueue, descriptor: Descriptor): Promise<boolean> {
  try {
    await invoke(queue, flockCall, [descriptor, LOCK_EX | LOCK_NB], descriptor.path);
    return true;
  } catch (error) {
    if (isErrno(error, 'EAGAIN')) return false;
    throw error;
  }
}

/** Finds the holders of a flock on `path`. */
export async function lockHolders(queue: DiskQueue, path: string): Promise<LockHolder[]> {
  const status = await statusOf(queue, path);
  // /proc/locks shows the filesystem's device. On btrfs and overlayfs, stat shows another one.
  const mount = (await readMountTable(queue)).find(({ id }) => id === status.mountId);
  const locks = parseFileLocks(await queue.run(() => readFile('/proc/locks', 'utf8')));
  const pids = locks
    .filter(({ inode }) => inode === status.inode)
    .filter(({ device }) => sameDevice(device, mount?.device) || sameDevice(device, status.device))
    .map(({ pid }) => pid);
  return Promise.all([...new Set(pids)].map(async (pid) => ({ pid, command: await commandOf(queue, pid) })));
}

async function commandOf(queue: DiskQueue, pid: number): Promise<string> {
  try {
    const text = await queue.run(() => readFile(`/proc/${pid}/cmdline`, 'utf8'));
    return text.replaceAll('\0', ' ').trim();
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ESRCH')) return '';
    throw error;
  }
}

/**
 * Answers if the regular file is open: by a loop device, or by a process, this one included. Asks for a write lease,
 * which the kernel grants only to the sole opener (fcntl(2), F_SETLEASE). So the time does not depend on the number of
 * loop devices. Two such queries about one file at a time see each other: run one after the other.
 */
export async function isOpenElsewhere(queue: DiskQueue, path: string): Promise<boolean> {
  let descriptor: Descriptor;
  try {
    descriptor = await openFile(queue, path, constants.O_RDWR | constants.O_NONBLOCK);
  } catch (error) {
    // Another process has a lease on it, and therefore has it open (open(2), EWOULDBLOCK).
    if (isErrno(error, 'EAGAIN')) return true;
    throw error;
  }
  await using file = descriptor;
  return !isSoleOpener(file);
}

/** Answers if this descriptor is the only one of the file. */
export function isSoleOpener(file: Descriptor): boolean {
  // A program that opens the file during the lease breaks it, and the signal for that would by default end us.
  invokeNow(fcntlCall, [file, F_SETSIG, SIGURG], file.path);
  const refusals = [osConstants.errno.EAGAIN];
  const taken = invokeNowUnless(refusals, fcntlCall, [file, F_SETLEASE, F_WRLCK], file.path);
  return taken >= 0 && invokeNowUnless(refusals, fcntlCall, [file, F_SETLEASE, F_UNLCK], file.path) >= 0;
}

/** A lock on a whole file (flock(2)) in /proc/locks. */
interface FileLock {
  /** 0 if the holder is in a process namespace that we do not see. */
  readonly pid: number;
  readonly device: DeviceNumber;
  readonly inode: bigint;
}

/** `12: FLOCK  ADVISORY  WRITE 4711 08:02:123456 0 EOF`; the device's numbers are hexadecimal (proc_locks(5)). */
const heldFlock = /^[0-9]+: FLOCK +\S+ +\S+ +(-?[0-9]+) ([0-9a-f]+):([0-9a-f]+):([0-9]+) /;

/** The flocks that are held; waiting ones are left out. */
export function parseFileLocks(text: string): FileLock[] {
  return text.split('\n').flatMap((line) => {
    const [, pid, major, minor, inode] = heldFlock.exec(line) ?? [];
    if (pid === undefined || major === undefined || minor === undefined || inode === undefined) return [];
    const device = { major: Number.parseInt(major, 16), minor: Number.parseInt(minor, 16) };
    return [{ pid: Math.max(0, Number(pid)), device, inode: BigInt(inode) }];
  });
}
