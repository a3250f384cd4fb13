import { constants } from 'node:fs';
import { Descriptor, invokeToOpen, openFlags } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { KernelError } from '../call/errno.ts';
import { type Lent, libcCall } from '../call/libc.ts';
import { type DeviceNumber, sameDevice } from '../device.ts';
import { statusOf } from './path.ts';

const openatCall = libcCall<readonly [Lent, string, number, number]>(
  'int openat(int dirfd, const char *path, int flags, uint mode)',
);

/** The number of nested directories that are open at a time. */
const openAtOnce = 32;
/** Limit of nested directories: each takes a little memory. */
const deepestTree = 10_000;
const ELOOP = 40;
const ESTALE = 116;

interface Level<State> {
  /** undefined: it was closed, and is opened again from below. */
  directory: Descriptor | undefined;
  readonly path: string;
  readonly device: DeviceNumber;
  readonly inode: bigint;
  readonly state: State;
}

/**
 * Directories of a tree, each in the one before, of which the innermost are open. The others are opened again by the way
 * up from the one below, and compared: nothing changes the tree meanwhile, and a directory that was moved is refused.
 */
export class TreeLevels<State extends object> implements AsyncDisposable {
  readonly #queue: DiskQueue;
  readonly #levels: Level<State>[] = [];

  constructor(queue: DiskQueue) {
    this.#queue = queue;
  }

  get depth(): number {
    return this.#levels.length;
  }

  /** The states of the walk in all of them, from the uppermost on. */
  get states(): readonly State[] {
    return this.#levels.map(({ state }) => state);
  }

  /** The innermost directory, and the state of the walk in it. */
  get top(): { readonly directory: Descriptor; readonly state: State } | undefined {
    const { directory, state } = this.#levels.at(-1) ?? {};
    return directory === undefined || state === undefined ? undefined : { directory, state };
  }

  /**
   * Goes down into a directory, which is closed on the way up.
   * @param closing gets the state of the level that is closed for it
   * @throws KernelError ELOOP if it is deeper than anything that programs make
   */
  async push(directory: Descriptor, state: State, closing?: (state: State) => void): Promise<void> {
    const { device, inode } = await statusOf(this.#queue, directory);
    if (this.depth >= deepestTree) {
      await directory[Symbol.asyncDispose]();
      throw new KernelError({ syscall: 'openat2', errno: ELOOP, path: directory.path.slice(0, 200) });
    }
    this.#levels.push({ directory, path: directory.path, device, inode, state });
    const far = this.#levels[this.depth - 1 - openAtOnce];
    if (far?.directory === undefined) return;
    const { directory: farDirectory } = far;
    far.directory = undefined;
    closing?.(far.state);
    await farDirectory[Symbol.asyncDispose]();
  }

  /** Goes up. The innermost directory is closed. */
  async pop(): Promise<void> {
    const left = this.#levels.pop();
    if (left?.directory === undefined) return;
    await using below = left.directory;
    const above = this.#levels.at(-1);
    if (above !== undefined) above.directory ??= await this.#openAbove(below, above);
  }

  async #openAbove(below: Descriptor, { device, inode, path }: Level<State>): Promise<Descriptor> {
    const { O_DIRECTORY, O_NOATIME, O_RDONLY } = constants;
    const flags = O_RDONLY | O_DIRECTORY | O_NOATIME | openFlags.O_CLOEXEC;
    const fd = await invokeToOpen(this.#queue, openatCall, [below, '..', flags, 0], path);
    const opened = new Descriptor(fd, path, this.#queue);
    const status = await statusOf(this.#queue, opened);
    if (status.inode === inode && sameDevice(status.device, device)) return opened;
    await opened[Symbol.asyncDispose]();
    throw new KernelError({ syscall: 'openat', errno: ESTALE, path, detail: 'a directory of the tree was moved' });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { directory } of this.#levels.splice(0)) await directory?.[Symbol.asyncDispose]();
  }
}
