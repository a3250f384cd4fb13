import { type Handler, type StreamHandler, wrapHandlers } from '../csi/handler.ts';

/** Counts the calls in progress, including those whose clients went away: the work continues without them (T02). */
export class InFlightCalls {
  #running = 0;
  #begun = 0;
  readonly #waiting: (() => void)[] = [];

  /** Counts the calls of these handlers. */
  count<H extends object>(handlers: H): H {
    return wrapHandlers(handlers, (handler: Handler<never, object>) => this.#counted(handler));
  }

  /** Work that no client has asked for, and that a stop waits for like a call. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#running++;
    try {
      return await work();
    } finally {
      this.#ended();
    }
  }

  /** The number of calls so far, including those in progress. */
  get begun(): number {
    return this.#begun;
  }

  /** The same for handlers of streams. A stream is in progress until its last message, or until it is ended early. */
  countStreams<H extends object>(handlers: H): H {
    return wrapHandlers(handlers, (handler: StreamHandler<never, object>) => this.#countedStream(handler));
  }

  /** Resolves with true when no call is in progress, or with false after the timeout. */
  idle(timeoutMs: number): Promise<boolean> {
    if (this.#running === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), timeoutMs);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }

  #counted(handler: Handler<never, object>): Handler<never, object> {
    return (request, context) => {
      this.#begun++;
      return this.during(async () => handler(request, context));
    };
  }

  #countedStream(handler: StreamHandler<never, object>): StreamHandler<never, object> {
    return (request, context) => this.#passOn(handler(request, context));
  }

  async *#passOn(messages: AsyncIterable<object>): AsyncGenerator<object, void, void> {
    this.#running++;
    this.#begun++;
    try {
      yield* messages;
    } finally {
      this.#ended();
    }
  }

  #ended(): void {
    this.#running--;
    if (this.#running === 0) for (const wake of this.#waiting.splice(0)) wake();
  }
}
