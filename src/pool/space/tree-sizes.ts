import { openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { walkTree } from '../../kernel/file/tree.ts';

interface Counted {
  readonly bytes: bigint;
  /** By `performance.now()`. */
  readonly dueMs: number;
}

const leastPauseMs = 60_000;
/** Of the time at most this part is spent with one tree. */
const pauseFactor = 50;

/**
 * What trees take that no quota counts. They are walked now and then, one at a time and behind the answer; what has not
 * been counted yet takes nothing, so that too little is promised until then, and not too much.
 */
export class TreeSizes {
  readonly #queue: DiskQueue;
  readonly #counted = new Map<string, Counted>();
  readonly #waiting = new Set<string>();
  #turn: Promise<void> = Promise.resolve();

  constructor(queue: DiskQueue) {
    this.#queue = queue;
  }

  of(path: string): bigint {
    const counted = this.#counted.get(path);
    if (!this.#waiting.has(path) && performance.now() >= (counted?.dueMs ?? 0)) {
      this.#waiting.add(path);
      this.#turn = this.#turn.then(() => this.#count(path));
    }
    return counted?.bytes ?? 0n;
  }

  async #count(path: string): Promise<void> {
    const startedMs = performance.now();
    try {
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
    const linked = new Set<bigint>();
    await using root = await openReadOnly(this.#queue, path);
    await walkTree(this.#queue, root, async ({ status }) => {
      const isAgain = status.kind !== 'directory' && status.links > 1 && linked.has(status.inode);
      if (status.links > 1) linked.add(status.inode);
      if (!isAgain) bytes += status.allocatedBytes;
    });
    return bytes;
  }
}
