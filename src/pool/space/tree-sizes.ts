import { openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { type TreeEntry, walkTree } from '../../kernel/file/tree.ts';
import { withTimeout } from '../../volume/with-timeout.ts';

interface Counted {
  readonly bytes: bigint;
  /** By `performance.now()`. */
  readonly dueMs: number;
}

const patienceMs = 1_000;
const leastPauseMs = 60_000;
/** Of the time at most this part is spent with one tree. */
const pauseFactor = 50;

/**
 * What trees take that no quota counts. They are walked now and then, one at a time and mostly behind the answer; what has
 * not been counted yet takes nothing, so that too little is provisioned until then, and not too much.
 */
export class TreeSizes {
  readonly #queue: DiskQueue;
  readonly #counted = new Map<string, Counted>();
  readonly #waiting = new Set<string>();
  readonly #stop = new AbortController();
  #turn: Promise<void> = Promise.resolve();

  constructor(queue: DiskQueue) {
    this.#queue = queue;
  }

  /** Waits a moment for what has never been counted: whoever asks once about a volume at rest may not ask again. */
  async of(path: string): Promise<bigint> {
    const counted = this.#counted.get(path);
    if (!this.#waiting.has(path) && performance.now() >= (counted?.dueMs ?? 0)) {
      this.#waiting.add(path);
      this.#turn = this.#turn.then(() => this.#count(path));
    }
    if (counted !== undefined) return counted.bytes;
    await withTimeout(patienceMs, this.#turn);
    return this.#counted.get(path)?.bytes ?? 0n;
  }

  /** Lets go of what is being counted: a filesystem with something open in it cannot be unmounted. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#turn;
  }

  async #count(path: string): Promise<void> {
    const startedMs = performance.now();
    try {
      this.#stop.signal.throwIfAborted();
      const bytes = await this.#sum(path);
      const endedMs = performance.now();
      const pauseMs = Math.max(leastPauseMs, pauseFactor * (endedMs - startedMs));
      this.#counted.set(path, { bytes, dueMs: endedMs + pauseMs });
    } catch {
      // Gone by now, or something is mounted in it: what was known of it is no use any more.
      this.#counted.delete(path);
    } finally {
      this.#waiting.delete(path);
    }
  }

  async #sum(path: string): Promise<bigint> {
    let bytes = 0n;
    await using root = await openReadOnly(this.#queue, path);
    // A file of several names has its share under each: to remember those already seen would take memory for millions.
    const add = async ({ status }: TreeEntry) => {
      const names = status.kind === 'directory' ? 1n : BigInt(Math.max(1, status.links));
      bytes += status.allocatedBytes / names;
    };
    await walkTree(this.#queue, root, add, this.#stop.signal);
    return bytes;
  }
}
