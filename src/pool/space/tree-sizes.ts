import { type Descriptor, openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { type TreeEntry, walkTree } from '../../kernel/file/tree.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';

interface Counted {
  readonly bytes: bigint;
  /** By `performance.now()`. */
  readonly dueMs: number;
}

const countTimeoutMs = 1_000;
const minPauseMs = 60_000;
/** The share of the time that is spent with one tree is at most 1 in 50. */
const pauseFactor = 50;

/**
 * The space of trees that no quota counts. They are walked now and then, one at a time and mostly behind the answer; a
 * tree that has not been counted yet takes nothing, so that too little is provisioned until then, and not too much.
 */
export class TreeSizes {
  readonly #queue: DiskQueue;
  readonly #onCounted: (path: string) => void;
  readonly #counted = new Map<string, Counted>();
  readonly #waiting = new Set<string>();
  /** Paths that were changed after their count had begun. */
  readonly #outdated = new Set<string>();
  readonly #stop = new AbortController();
  #turn: Promise<void> = Promise.resolve();

  /** @param onCounted hears of each count that has ended: what `of` says of the path may have changed */
  constructor(queue: DiskQueue, onCounted: (path: string) => void) {
    this.#queue = queue;
    this.#onCounted = onCounted;
  }

  /** Waits a moment for a path that has never been counted: the caller may not ask again about an idle volume. */
  async of(path: string): Promise<bigint> {
    const counted = this.#counted.get(path);
    if (!this.#waiting.has(path) && performance.now() >= (counted?.dueMs ?? 0)) this.#begin(path);
    if (counted !== undefined) return counted.bytes;
    await withTimeout(countTimeoutMs, this.#turn);
    return this.#counted.get(path)?.bytes ?? 0n;
  }

  /** Counts it again, however short ago the last count was, and waits a moment for that. */
  async recount(path: string): Promise<void> {
    // One that has begun may have passed the change already: the next `of` begins another.
    if (this.#waiting.has(path)) this.#outdated.add(path);
    else this.#begin(path);
    await withTimeout(countTimeoutMs, this.#turn);
  }

  /** A tree has another path now, and takes what it took. */
  move(from: string, to: string): void {
    const counted = this.#counted.get(from);
    if (counted === undefined || this.#counted.has(to)) return;
    this.#counted.delete(from);
    this.#counted.set(to, counted);
  }

  /** Nothing is there any more. */
  forget(path: string): void {
    this.#counted.delete(path);
  }

  /** Ends a walk that is in progress: a filesystem with something open in it cannot be unmounted. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#turn;
  }

  #begin(path: string): void {
    this.#waiting.add(path);
    this.#turn = this.#turn.then(() => this.#count(path));
  }

  async #count(path: string): Promise<void> {
    if (this.#stop.signal.aborted) return;
    const startedMs = performance.now();
    this.#outdated.delete(path);
    let bytes = this.#counted.get(path)?.bytes ?? 0n;
    let isGone = false;
    try {
      await using root = await openReadOnly(this.#queue, path).catch(ignoreMissing);
      isGone = root === undefined;
      if (root !== undefined) bytes = await this.#sum(root);
    } catch {
      // The last count of a tree that cannot be walked stays, so that capacity does not flap.
    }
    const endedMs = performance.now();
    const pauseMs = Math.max(minPauseMs, pauseFactor * (endedMs - startedMs));
    this.#waiting.delete(path);
    if (isGone) this.#counted.delete(path);
    else this.#counted.set(path, { bytes, dueMs: this.#outdated.delete(path) ? 0 : endedMs + pauseMs });
    if (!isGone && !this.#stop.signal.aborted) this.#onCounted(path);
  }

  async #sum(root: Descriptor): Promise<bigint> {
    let bytes = 0n;
    // A file of several names has its share under each: to remember those already seen would take memory for millions.
    const add = async ({ status }: TreeEntry) => {
      const names = status.kind === 'directory' ? 1n : BigInt(Math.max(1, status.links));
      bytes += status.allocatedBytes / names;
    };
    await walkTree(this.#queue, root, add, { signal: this.#stop.signal, isInUse: true, opensFiles: false });
    return bytes;
  }
}
