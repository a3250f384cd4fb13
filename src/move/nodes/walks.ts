import { Unavailable } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import { type Piece, pieceBytes } from '../copy.ts';
import type { Reading } from '../source.ts';

/** A copy that goes on at a place in a tree, for one connection. */
export interface WalkOrder {
  readonly id: VolumeId;
  /** Another one for each move, fence and place. */
  readonly key: string;
  /** The connection was lost. */
  readonly signal: AbortSignal;
  /** Begins the walk. */
  read(signal: AbortSignal): Promise<Reading>;
  /** Runs the walk as long as the volume may be read. @param walk closes all once its signal is aborted */
  during(walk: (ended: AbortSignal) => Promise<void>): Promise<void>;
}

/** The target of a connection that was cut comes again before that, or its fence ends. */
const keptMs = 120_000;

/**
 * The walks of a source through trees, to the places where copies that were cut short go on. A walk goes on when its connection
 * is cut, too, and the next one takes it up: a network that is cut more often than a walk takes must not keep it from its end.
 */
export class Walks {
  readonly #walks = new Map<VolumeId, Walk>();
  readonly #running = new Set<Promise<void>>();

  async take(order: WalkOrder): Promise<Reading> {
    const { id } = order;
    const before = this.#walks.get(id);
    if (before?.isFor(order.key) === true) return before.join(order.signal);
    before?.end();
    const walk = new Walk(order);
    this.#walks.set(id, walk);
    const running = walk.run().finally(() => {
      this.#running.delete(running);
      if (this.#walks.get(id) === walk) this.#walks.delete(id);
    });
    this.#running.add(running);
    return walk.join(order.signal);
  }

  async close(): Promise<void> {
    for (const walk of this.#walks.values()) walk.end();
    await Promise.all(this.#running);
  }
}

class Walk {
  readonly #order: WalkOrder;
  readonly #ending = new AbortController();
  readonly #begun = Promise.withResolvers<Reading>();
  #passed = 0n;
  /** The first piece behind that place, and what comes after it. */
  #rest: { readonly first: IteratorResult<Piece, unknown>; readonly pieces: AsyncIterator<Piece> } | undefined;
  #failed: { readonly error: unknown } | undefined;
  /** A connection has got pieces with data: a cut of it is where another walk has to begin. */
  #isTaken = false;
  #connections = 0;
  #hasEnded = false;
  #timer: NodeJS.Timeout | undefined;
  /** Resolves when one of these has changed. */
  #changed = Promise.withResolvers<void>();

  constructor(order: WalkOrder) {
    this.#order = order;
    // It is awaited by connections, if there are any.
    this.#begun.promise.catch(() => undefined);
  }

  isFor(key: string): boolean {
    return key === this.#order.key && !this.#isTaken && this.#failed === undefined && !this.#ending.signal.aborted;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#ending.abort(new Unavailable('The copy goes on by another connection, or has ended.'));
    this.#wake();
  }

  /** Never rejects. */
  async run(): Promise<void> {
    try {
      await this.#order.during((ended) => this.#walk(AbortSignal.any([ended, this.#ending.signal])));
    } catch (error) {
      this.#failed = { error };
      this.#begun.reject(error);
    } finally {
      this.#hasEnded = true;
      this.end();
    }
  }

  /** The reading for another connection, which has all that was passed until now, too. An earlier one gets no more. */
  async join(signal: AbortSignal): Promise<Reading> {
    clearTimeout(this.#timer);
    const connection = ++this.#connections;
    const reading = await this.#begun.promise;
    return {
      ...reading,
      pieces: this.#pieces(connection, signal),
      [Symbol.asyncDispose]: async () => this.#leave(connection),
    };
  }

  #leave(connection: number): void {
    if (connection !== this.#connections) return;
    if (this.#isTaken) this.end();
    else if (!this.#hasEnded) this.#timer = setTimeout(() => this.end(), keptMs);
  }

  async #walk(signal: AbortSignal): Promise<void> {
    await using reading = await this.#order.read(signal);
    this.#begun.resolve(reading);
    const pieces = reading.pieces[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await pieces.next();
        if (next.done === true || next.value.data !== undefined) {
          this.#rest = { first: next, pieces };
          break;
        }
        this.#passed = next.value.offsetBytes + BigInt(next.value.lengthBytes);
        this.#wake();
      }
      this.#wake();
      await aborted(signal);
      signal.throwIfAborted();
    } finally {
      await pieces.return?.();
    }
  }

  async *#pieces(connection: number, signal: AbortSignal): AsyncGenerator<Piece, void, void> {
    const gone = aborted(signal);
    for (let at = 0n; ; ) {
      signal.throwIfAborted();
      if (connection !== this.#connections) throw new Unavailable('The copy goes on by another connection.');
      const length = Number(this.#passed - at > pieceBytes ? pieceBytes : this.#passed - at);
      if (length > 0) {
        yield { offsetBytes: at, lengthBytes: length, data: undefined };
        at += BigInt(length);
      } else if (this.#failed !== undefined) throw this.#failed.error;
      else if (this.#rest !== undefined) break;
      else await Promise.race([this.#changed.promise, gone]);
    }
    this.#isTaken = true;
    const { first, pieces } = this.#rest;
    for (let next = first; next.done !== true; next = await pieces.next()) yield next.value;
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
