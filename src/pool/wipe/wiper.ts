import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { wiped } from '../events.ts';
import type { PoolLog } from '../log.ts';
import { type WipeRequest, wipe } from './wipe.ts';

export interface WiperOptions {
  readonly poolName: string;
  readonly log: PoolLog;
  /** The pool's, beside which wipes have places of their own. */
  readonly queue: DiskQueue;
  /** How many wipes run at a time; the others wait. */
  readonly atOnce: number;
}

/** A wipe that is asked for. */
export interface Wipe extends Omit<WipeRequest, 'queue' | 'onProgress' | 'device'> {
  /** Of what, for the log. */
  readonly what: string;
  /** Where its calls run, if it is a disk by itself; unset: in a queue for all wipes of the pool. */
  readonly queue?: DiskQueue | undefined;
  /** Called when its turn has come. It is closed at the end. @returns undefined: it is gone, and needs no wipe */
  open(queue: DiskQueue): Promise<WipeRequest['device'] | undefined>;
}

/** How far a wipe is. */
export interface WipeProgress {
  readonly what: string;
  readonly totalBytes: bigint;
  readonly doneBytes: bigint;
}

/** How often a wipe is told of in the log. */
const tellingIntervalMs = 60_000;

/**
 * Wipes devices of a pool, behind all answers: in places of its own, so that nobody waits for it. What is to be wiped, and
 * is still to be wiped after a restart, the caller's trash knows; a wipe begins anew then.
 */
export class Wiper {
  readonly #options: WiperOptions;
  readonly #turns: DiskQueue;
  readonly #calls: DiskQueue;
  readonly #underWay = new Set<{ what: string; totalBytes: bigint; doneBytes: bigint }>();

  constructor(options: WiperOptions) {
    this.#options = options;
    this.#turns = options.queue.beside('wipes', options.atOnce);
    this.#calls = options.queue.beside('wipe', options.atOnce);
  }

  /** Those that wait for their turn, too. */
  progress(): readonly WipeProgress[] {
    return [...this.#underWay];
  }

  /**
   * Resolves when the range reads as zeros, durably. @throws what the disk answers; the reason of an abort
   */
  async wipe(request: Wipe): Promise<void> {
    if (request.policy === 'none') return;
    const progress = { what: request.what, totalBytes: request.range.lengthBytes, doneBytes: 0n };
    this.#underWay.add(progress);
    try {
      await this.#turns.run(() => this.#wipe(request, progress));
    } finally {
      this.#underWay.delete(progress);
    }
  }

  async #wipe(request: Wipe, progress: { doneBytes: bigint }): Promise<void> {
    const { log, poolName: pool } = this.#options;
    const { policy, queue = this.#calls, range, signal, what } = request;
    signal?.throwIfAborted();
    await using device = await request.open(queue);
    if (device === undefined) return;
    const fields = { pool, of: what, bytes: range.lengthBytes.toString(), policy };
    log.info(fields, 'wiping what was deleted');
    const startedMs = performance.now();
    let toldMs = startedMs;
    const onProgress = (doneBytes: bigint) => {
      wiped.publish({ pool, bytes: doneBytes - progress.doneBytes });
      progress.doneBytes = doneBytes;
      if (performance.now() - toldMs < tellingIntervalMs) return;
      toldMs = performance.now();
      log.info({ ...fields, done_bytes: doneBytes.toString() }, 'still wiping what was deleted');
    };
    const method = await wipe({ queue, device, range, policy, signal, onProgress });
    log.info({ ...fields, method, seconds: Math.round((performance.now() - startedMs) / 1000) }, 'wiped');
  }
}
