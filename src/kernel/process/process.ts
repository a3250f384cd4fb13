import { readdir, readFile, readlink } from 'node:fs/promises';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno, KernelError } from '../call/errno.ts';
import { callLater, systemCall } from '../call/libc.ts';
import type { DeviceNumber } from '../device.ts';
import { type FileStatus, statusBehind } from '../file/path.ts';
import { type Mount, parseMountTable } from '../mount/mount-table.ts';

/* Facts about processes from /proc. They come and go meanwhile; a process that is gone yields nothing. */

/** A summary of a process. */
export interface ProcessState {
  /**
   * At most 15 characters. Arguments are left out: they lie in the process's memory, and reading that may hang with a
   * disk.
   */
  readonly command: string;
  /** It waits, perhaps for a disk, and no signal ends that. */
  readonly isUninterruptible: boolean;
  /** It has ended, and its parent has not asked how. */
  readonly isZombie: boolean;
  /** Another one for each process that gets this number, until the next boot. */
  readonly startTicks: string;
}

/** Something that a process holds. */
export interface HeldFile {
  /** Its link in /proc. */
  readonly link: string;
  /** undefined if its filesystem answers with an error, because it was shut down for example. */
  readonly status: FileStatus | undefined;
}

/** A part of a file that a process has in its memory. */
export interface Mapping {
  /** A link in /proc to the file itself. */
  readonly link: string;
  /** The device of the file's filesystem in the mount table. */
  readonly device: DeviceNumber;
  readonly path: string;
}

/** The processes that this one can see. */
export async function listProcesses(queue: DiskQueue): Promise<number[]> {
  const names = await queue.run(() => readdir('/proc'));
  return names.filter((name) => /^[0-9]+$/.test(name)).map(Number);
}

export async function processState(queue: DiskQueue, pid: number): Promise<ProcessState | undefined> {
  const text = await unlessGone(queue.run(() => readFile(`/proc/${pid}/stat`, 'utf8')));
  if (text === undefined) return undefined;
  // The command may have any characters in it, parentheses and spaces too (proc_pid_stat(5)).
  const end = text.lastIndexOf(')');
  const fields = text.slice(end + 2).split(' ');
  return {
    command: text.slice(text.indexOf('(') + 1, end),
    isUninterruptible: fields[0] === 'D',
    isZombie: fields[0] === 'Z' || fields[0] === 'X',
    startTicks: fields[19] ?? '',
  };
}

/** Answers if root runs a process, in all four of its user ids (proc_pid_status(5)). */
export async function isOfRoot(queue: DiskQueue, pid: number): Promise<boolean> {
  const text = await unlessGone(queue.run(() => readFile(`/proc/${pid}/status`, 'utf8')));
  return /^Uid:\t0\t0\t0\t0$/m.test(text ?? '');
}

/** The words that a process was started with. They lie in its memory: not for processes of which nothing is known. */
export async function wordsOf(queue: DiskQueue, pid: number): Promise<readonly string[]> {
  const text = await unlessGone(queue.run(() => readFile(`/proc/${pid}/cmdline`, 'utf8')));
  return text === undefined || text === '' ? [] : text.replace(/\0$/, '').split('\0');
}

/** The same text for processes that see the same mounts. */
export function mountNamespaceOf(queue: DiskQueue, pid: number | 'self'): Promise<string | undefined> {
  return unlessGone(queue.run(() => readlink(`/proc/${pid}/ns/mnt`)));
}

/** The number by which /proc shows the mounts and files of a process, and its mount namespace. */
export interface Shown {
  readonly thread: number;
  readonly namespace: string;
}

/** After the first thread of a process has ended, /proc shows it by another one. @returns undefined: all have ended */
export async function shownBy(queue: DiskQueue, pid: number): Promise<Shown | undefined> {
  const namespace = await mountNamespaceOf(queue, pid);
  if (namespace !== undefined) return { thread: pid, namespace };
  for (const thread of await threadsOf(queue, pid)) {
    const namespace = await mountNamespaceOf(queue, thread);
    if (namespace !== undefined) return { thread, namespace };
  }
  return undefined;
}

/** The mounts that a process sees. */
export async function mountTableOf(queue: DiskQueue, pid: number): Promise<Mount[]> {
  return parseMountTable((await mountTextOf(queue, pid)).toString());
}

/** The same as it is, which is empty if the process is gone. */
export async function mountTextOf(queue: DiskQueue, pid: number): Promise<Buffer> {
  return (await unlessGone(queue.run(() => readFile(`/proc/${pid}/mountinfo`)))) ?? Buffer.alloc(0);
}

/**
 * The files that a process has open, its working directory and its root, with those that threads of it have apart
 * (unshare(2), clone(2)). Waits for no disk and no server.
 */
export async function heldFiles(queue: DiskQueue, pid: number): Promise<HeldFile[]> {
  const files = await filesBelow(queue, `/proc/${pid}`, { places: true, open: true });
  for (const thread of await threadsOf(queue, pid)) {
    const apart = {
      places: await isApart(queue, pid, thread, 'places'),
      open: await isApart(queue, pid, thread, 'open'),
    };
    files.push(...(await filesBelow(queue, `/proc/${pid}/task/${thread}`, apart)));
  }
  return files;
}

/** places: working directory and root. open: open files. */
type Held = Readonly<Record<'open' | 'places', boolean>>;

async function filesBelow(queue: DiskQueue, directory: string, { open, places }: Held): Promise<HeldFile[]> {
  const descriptors = open ? ((await unlessGone(queue.run(() => readdir(`${directory}/fd`)))) ?? []) : [];
  const names = [...(places ? ['cwd', 'root'] : []), ...descriptors.map((fd) => `fd/${fd}`)];
  const files = await Promise.all(names.map((name) => unlessGone(heldFile(queue, `${directory}/${name}`))));
  return files.filter((file) => file !== undefined);
}

/** The threads of a process but the one that has its number. They have directories in /proc, too, which it does not list. */
async function threadsOf(queue: DiskQueue, pid: number): Promise<number[]> {
  const names = (await unlessGone(queue.run(() => readdir(`/proc/${pid}/task`)))) ?? [];
  return names.map(Number).filter((thread) => thread !== pid);
}

/** KCMP_FILES and KCMP_FS (kcmp(2)). */
const kinds = { open: 2, places: 3 } as const;
const kcmpCall = systemCall<readonly [number, number, number, number, number]>(
  'kcmp',
  process.arch === 'arm64' ? 272 : 312,
  ['int', 'int', 'int', 'ulong', 'ulong'],
);

/** False if a thread shares them with its process, as nearly all do. A kernel that does not say so has it looked at. */
async function isApart(queue: DiskQueue, pid: number, thread: number, what: keyof Held): Promise<boolean> {
  return (await callLater(queue, kcmpCall, [pid, thread, kinds[what], 0, 0])).result !== 0;
}

async function heldFile(queue: DiskQueue, link: string): Promise<HeldFile> {
  try {
    return { link, status: await statusBehind(queue, link) };
  } catch (error) {
    if (!(error instanceof KernelError) || isGone(error)) throw error;
    return { link, status: undefined };
  }
}

/** The target of a link of /proc; the name of a removed file is followed by ` (deleted)`. */
export async function targetOf(queue: DiskQueue, link: string): Promise<string | undefined> {
  return unlessGone(queue.run(() => readlink(link)));
}

/** The files that a process has mapped, its program among them. Waits while another thread changes the mappings. */
export async function mappedFiles(queue: DiskQueue, pid: number): Promise<Mapping[]> {
  return parseMappings(pid, (await unlessGone(queue.run(() => readFile(`/proc/${pid}/maps`, 'utf8')))) ?? '');
}

/** The mount that a link of /proc leads through; undefined if that is not known. */
export async function mountIdBehind(queue: DiskQueue, link: string): Promise<bigint | undefined> {
  try {
    return (await statusBehind(queue, link)).mountId;
  } catch (error) {
    if (error instanceof KernelError) return undefined;
    throw error;
  }
}

/** `address perms offset major:minor inode path`; the device is hexadecimal (proc_pid_maps(5)). */
const fileMapping = /^0*([0-9a-f]+)-0*([0-9a-f]+) \S+ \S+ ([0-9a-f]+):([0-9a-f]+) [1-9][0-9]* +(\/.*)$/;

export function parseMappings(pid: number, text: string): Mapping[] {
  return text.split('\n').flatMap((line) => {
    const [, start, end, major, minor, path] = fileMapping.exec(line) ?? [];
    if (major === undefined || minor === undefined || path === undefined) return [];
    const device = { major: Number.parseInt(major, 16), minor: Number.parseInt(minor, 16) };
    return [{ link: `/proc/${pid}/map_files/${start}-${end}`, device, path }];
  });
}

async function unlessGone<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** The process has ended, has no such file (a kernel thread), or belongs to another user. */
function isGone(error: unknown): boolean {
  return isErrno(error, 'ENOENT', 'ESRCH', 'EACCES', 'EPERM', 'EINVAL');
}

/** The namespace that all others are in (PROC_PID_INIT_INO of linux/proc_ns.h). */
const firstNamespace = 'pid:[4026531836]';

/** Answers if /proc has all processes of this machine, and not only those of a container. */
export async function seesAllProcesses(queue: DiskQueue): Promise<boolean> {
  return (await queue.run(() => readlink('/proc/self/ns/pid'))) === firstNamespace;
}
