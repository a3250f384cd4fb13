import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { wiped } from '../events.ts';
import type { PoolLog } from '../log.ts';
import { type WipeRequest, wipe } from './wipe.ts';

export interface WiperOptions {
  readonly poolName: string;
  readonly log: PoolLog;
  /** The pool's, beside which wipes have separate places. */
  readonly queue: DiskQueue;
  /** The number of wipes that run at a time; the others wait. */
  readonly atOnce: number;
}

/** A wipe that is asked for. */
export interface Wipe extends Omit<WipeRequest, 'queue' | 'onProgress' | 'device'> {
  /** The wiped object, for the log. */
  readonly what: string;
  /** The queue of its calls, if it is a separate disk; unset: one queue for all wipes of the pool. */
  readonly queue?: DiskQueue | undefined;
  /** Called when its turn has come. It is closed at the end. @returns undefined: it is gone, and needs no wipe */
  open(queue: DiskQueue): Promise<WipeRequest['device'] | undefined>;
}

/** The progress of a wipe. */
export interface WipeProgress {
  readonly what: string;
  readonly totalBytes: bigint;
  readonly doneBytes: bigint;
}

/** The pause between two log lines about a wipe. */
const tellingIntervalMs = 60_000;

/**
 * Wipes devices of a pool, behind all answers: in separate places, so that no call waits for it. The caller's trash knows the
 * devices to be wiped, also after a restart; a wipe then starts again.
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

  /** All wipes, with those that wait for their turn. */
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
    log.info(fields, 'wiping a deleted volume or snapshot');
    const startedMs = performance.now();
    let toldMs = startedMs;
    const onProgress = (doneBytes: bigint) => {
      wiped.publish({ pool, bytes: doneBytes - progress.doneBytes });
      progress.doneBytes = doneBytes;
      if (performance.now() - toldMs < tellingIntervalMs) return;
      toldMs = performance.now();
      log.info({ ...fields, done_bytes: doneBytes.toString() }, 'still wiping a deleted volume or snapshot');
    };
    const method = await wipe({ queue, device, range, policy, signal, onProgress });
    log.info({ ...fields, method, seconds: Math.round((performance.now() - startedMs) / 1000) }, 'wiped');
  }
}
