import { setTimeout as delay } from 'node:timers/promises';
import { Descriptor, invokeToOpen, openFlags } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno, KernelError } from '../call/errno.ts';
import { invoke, invokeNow, type Lent, libcCall, systemCall } from '../call/libc.ts';
import { component } from '../file/path.ts';
import { safeWords } from './mount-words.ts';

/** Flags of one mount, not of the filesystem. Absent: the kernel's default, or the flag of a bind mount's source. */
export interface MountAttributes {
  readonly readonly?: boolean;
  readonly nosuid?: boolean;
  readonly nodev?: boolean;
  readonly noexec?: boolean;
  readonly nodiratime?: boolean;
  readonly nosymfollow?: boolean;
  readonly atime?: 'relatime' | 'noatime' | 'strictatime';
}

/** A mount option for the filesystem: a flag, or a key and its value. */
export type MountParameter = readonly [string] | readonly [string, string];

/** A parameter that the filesystem refused. */
export class MountParameterError extends KernelError {
  readonly #index: number;
  readonly #count: number;

  constructor(
    failure: ConstructorParameters<typeof KernelError>[0],
    { count, index }: { readonly count: number; readonly index: number },
  ) {
    super(failure);
    this.#index = index;
    this.#count = count;
  }

  /** Its position, from 1 on, among the last `lastCount` parameters; undefined if it is none of them. */
  positionFromLast(lastCount: number): number | undefined {
    const position = this.#index - (this.#count - lastCount) + 1;
    return position < 1 ? undefined : position;
  }
}

export interface FilesystemMount {
  readonly fsType: string;
  readonly source: string;
  readonly parameters: readonly MountParameter[];
  readonly attributes: MountAttributes;
  readonly target: Descriptor;
}

export interface BindMount {
  readonly from: Descriptor;
  readonly target: Descriptor;
  readonly attributes: MountAttributes;
  /** Later mounts in one of the two do not appear in the other (mount_namespaces(7)). */
  readonly isApart?: boolean;
}

const FSOPEN_CLOEXEC = 1;
const FSCONFIG_SET_FLAG = 0;
const FSCONFIG_SET_STRING = 1;
const FSCONFIG_CMD_CREATE = 6;
const FSMOUNT_CLOEXEC = 1;
const OPEN_TREE_CLONE = 1;
const AT_EMPTY_PATH = 0x1000;
const MS_PRIVATE = 1n << 18n;
const MOVE_MOUNT_F_EMPTY_PATH = 0x04;
const MOVE_MOUNT_T_EMPTY_PATH = 0x40;
const UMOUNT_NOFOLLOW = 8;

/** force: requests to a server end with an error, even if the mount then stays, as it is in use. detach: it is out of sight at once, and ends with its last user. */
const unmountBits = { force: 1, detach: 2 } as const;
export type UnmountFlag = keyof typeof unmountBits;

/** Struct and numbers of mount_setattr(2); fsmount(2) takes the same numbers. */
const flagBits = {
  readonly: 0x01n,
  nosuid: 0x02n,
  nodev: 0x04n,
  noexec: 0x08n,
  nodiratime: 0x80n,
  nosymfollow: 0x200000n,
} as const;
const MOUNT_ATTR__ATIME = 0x70n;
const atimeBits = { relatime: 0x00n, noatime: 0x10n, strictatime: 0x20n } as const;

const fsopenCall = systemCall<readonly [string, number]>('fsopen', 430, ['const char *', 'uint']);
const fsconfigCall = systemCall<readonly [Lent, number, string | null, string | null, number]>('fsconfig', 431, [
  'int',
  'uint',
  'const char *',
  'const char *',
  'int',
]);
const fsmountCall = systemCall<readonly [Lent, number, number]>('fsmount', 432, ['int', 'uint', 'uint']);
const openTreeCall = systemCall<readonly [Lent, string, number]>('open_tree', 428, ['int', 'const char *', 'uint']);
const moveMountCall = systemCall<readonly [Lent, string, Lent, string, number]>('move_mount', 429, [
  'int',
  'const char *',
  'int',
  'const char *',
  'uint',
]);
const mountSetattrCall = systemCall<readonly [Lent, string, number, Uint8Array, number]>('mount_setattr', 442, [
  'int',
  'const char *',
  'uint',
  'void *',
  'size_t',
]);
const umountCall = libcCall<readonly [string | Lent, number]>('int umount2(const char *target, int flags)');
const readCall = libcCall<readonly [Lent, Uint8Array, number]>('long read(int fd, void *memory, size_t size)');

/**
 * Mounts a filesystem. All attributes hold before any process can see it, and nothing is left if the process dies
 * halfway. In an error, `detail` has the filesystem's own words without the given options (X02).
 */
export async function mountFilesystem(queue: DiskQueue, request: FilesystemMount): Promise<void> {
  const { fsType, source, target } = request;
  await using context = await openContext(queue, fsType, source);
  await using mount = await createMount(queue, context, request);
  await moveMount(queue, mount, target);
  // The mount holds the filesystem now, so closing these two frees a little memory and waits for nothing.
  mount.closeNow();
  context.closeNow();
}

/**
 * Mounts a filesystem invisibly, while the descriptor is open. This replays its journal, for example, and leaves no
 * mount behind even if the process dies.
 */
export async function mountDetached(queue: DiskQueue, request: Omit<FilesystemMount, 'target'>): Promise<Descriptor> {
  await using context = await openContext(queue, request.fsType, request.source);
  return await createMount(queue, context, request);
}

/** Answers if the kernel has such a filesystem; loads its module. */
export async function canMountType(queue: DiskQueue, fsType: string): Promise<boolean> {
  try {
    await using _context = await openContext(queue, fsType, fsType);
    return true;
  } catch (error) {
    if (isErrno(error, 'ENODEV')) return false;
    throw error;
  }
}

/** Types whose module the kernel has loaded. For these, fsopen(2) only makes a structure in memory. */
const loadedTypes = new Set<string>();

async function openContext(queue: DiskQueue, fsType: string, source: string): Promise<Descriptor> {
  const args = [fsType, FSOPEN_CLOEXEC] as const;
  const fd = loadedTypes.has(fsType)
    ? invokeNow(fsopenCall, args, source)
    : await invokeToOpen(queue, fsopenCall, args, source);
  loadedTypes.add(fsType);
  return new Descriptor(fd, source, queue);
}

async function createMount(
  queue: DiskQueue,
  context: Descriptor,
  { parameters, attributes }: Pick<FilesystemMount, 'parameters' | 'attributes'>,
): Promise<Descriptor> {
  const { path: source } = context;
  let command = 'FSCONFIG_SET_STRING';
  let index: number | undefined;
  try {
    // Setting a parameter only parses it.
    invokeNow(fsconfigCall, [context, FSCONFIG_SET_STRING, 'source', source, 0]);
    for (const [place, [key, value]] of parameters.entries()) {
      index = place;
      command = value === undefined ? 'FSCONFIG_SET_FLAG' : 'FSCONFIG_SET_STRING';
      if (value === undefined) invokeNow(fsconfigCall, [context, FSCONFIG_SET_FLAG, key, null, 0]);
      else invokeNow(fsconfigCall, [context, FSCONFIG_SET_STRING, key, value, 0]);
    }
    command = 'FSCONFIG_CMD_CREATE';
    index = undefined;
    await invoke(queue, fsconfigCall, [context, FSCONFIG_CMD_CREATE, null, null, 0]);
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
    const detail = safeWords(readMessages(context), parameters.flat());
    const failure = { syscall: `fsconfig(${command})`, errno: error.errno, path: source, detail };
    throw index === undefined
      ? new KernelError(failure)
      : new MountParameterError(failure, { index, count: parameters.length });
  }
  const { set } = attributeBits(attributes);
  const mountFd = invokeNow(fsmountCall, [context, FSMOUNT_CLOEXEC, Number(set)], source);
  return new Descriptor(mountFd, source, queue);
}

/** Reads the filesystem's messages: each read gives one, and ENODATA ends them. */
function readMessages(context: Descriptor): string[] {
  const messages: string[] = [];
  const memory = Buffer.alloc(1024);
  for (;;) {
    try {
      const bytes = invokeNow(readCall, [context, memory, memory.length]);
      messages.push(memory.toString('utf8', 0, bytes));
    } catch (error) {
      if (!isErrno(error, 'ENODATA')) throw error;
      return messages;
    }
  }
}

/**
 * Makes `from` visible at `target` too: a directory, or a file or device node on a file. Mounts below `from` are not
 * included. Attributes hold before any process can see the new mount.
 */
export async function bindMount(
  queue: DiskQueue,
  { attributes, from, isApart = false, target }: BindMount,
): Promise<void> {
  await using tree = cloneMount(queue, from, {});
  if (isApart) setMount(tree, { set: 0n, clear: 0n, propagation: MS_PRIVATE }, from.path);
  await placeMount(queue, tree, { target, attributes });
}

/** Makes a second mount of an open directory or file. No other process sees it, and it ends with its descriptor. */
export function cloneMount(queue: DiskQueue, from: Descriptor, attributes: MountAttributes): Descriptor {
  const flags = OPEN_TREE_CLONE | AT_EMPTY_PATH | openFlags.O_CLOEXEC;
  // On this thread: the kernel copies a mount that it has in memory.
  const tree = new Descriptor(invokeNow(openTreeCall, [from, '', flags], from.path), from.path, queue);
  try {
    setAttributes(tree, attributes, from.path);
  } catch (error) {
    tree.closeNow();
    throw error;
  }
  return tree;
}

/** Makes a detached mount visible at `target`. Its attributes hold before that; the descriptor is closed. */
export async function placeMount(
  queue: DiskQueue,
  mount: Descriptor,
  { attributes, target }: Pick<BindMount, 'attributes' | 'target'>,
): Promise<void> {
  setAttributes(mount, attributes, target.path);
  await moveMount(queue, mount, target);
  mount.closeNow();
}

/** On this thread: no other process has the mount yet, so there is nothing to wait for. */
function setAttributes(mount: Descriptor, attributes: MountAttributes, path: string): void {
  const { set, clear } = attributeBits(attributes);
  if (set !== 0n || clear !== 0n) setMount(mount, { set, clear, propagation: 0n }, path);
}

interface MountChange {
  readonly set: bigint;
  readonly clear: bigint;
  readonly propagation: bigint;
}

/** struct mount_attr. */
function setMount(mount: Descriptor, { clear, propagation, set }: MountChange, path: string): void {
  const argument = Buffer.alloc(32);
  argument.writeBigUInt64LE(set, 0);
  argument.writeBigUInt64LE(clear, 8);
  argument.writeBigUInt64LE(propagation, 16);
  invokeNow(mountSetattrCall, [mount, '', AT_EMPTY_PATH, argument, argument.length], path);
}

async function moveMount(queue: DiskQueue, mount: Descriptor, target: Descriptor): Promise<void> {
  const flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  await invoke(queue, moveMountCall, [mount, '', target, '', flags], target.path);
}

/** Unmounts `name` below a verified directory: no program can put a symlink in the way. */
export async function unmountAt(queue: DiskQueue, parent: Descriptor, name: string): Promise<void> {
  await unmountPatiently(queue, parent.child(component(parent, name)), `${parent.path}/${name}`);
}

/** Unmounts `path`; a final symlink is not followed. */
export async function unmount(queue: DiskQueue, path: string): Promise<void> {
  await unmountPatiently(queue, path, path);
}

/**
 * A program that is being started has copies of all our descriptors until it executes, perhaps one on this mount; and
 * other programs look into mounts for a moment. A mount that is still busy after all these pauses is in use.
 */
export async function unmountPatiently(queue: DiskQueue, path: string | Lent, where: string): Promise<void> {
  for (const pauseMs of [1, 4, 16, 64]) {
    try {
      await invoke(queue, umountCall, [path, UMOUNT_NOFOLLOW], where);
      return;
    } catch (error) {
      if (!isErrno(error, 'EBUSY')) throw error;
      await delay(pauseMs);
    }
  }
  await invoke(queue, umountCall, [path, UMOUNT_NOFOLLOW], where);
}

/** One try, with flags of umount2(2). @throws KernelError EBUSY if it is in use */
export async function unmountNow(
  queue: DiskQueue,
  path: string | Lent,
  where: string,
  flags: readonly UnmountFlag[],
): Promise<void> {
  const bits = flags.reduce((sum, flag) => sum | unmountBits[flag], UMOUNT_NOFOLLOW);
  await invoke(queue, umountCall, [path, bits], where);
}

function attributeBits(attributes: MountAttributes): { readonly set: bigint; readonly clear: bigint } {
  let set = 0n;
  let clear = 0n;
  for (const [name, bit] of Object.entries(flagBits)) {
    const wanted = attributes[name as keyof typeof flagBits];
    if (wanted === true) set |= bit;
    else if (wanted === false) clear |= bit;
  }
  if (attributes.atime !== undefined) {
    // The kind of atime is a number in these bits, so the old one must be cleared.
    set |= atimeBits[attributes.atime];
    clear |= MOUNT_ATTR__ATIME;
  }
  return { set, clear };
}
