import { type Handler, type StreamHandler, wrapHandlers } from '../csi/handler.ts';

/** Knows how many calls are at work, those included whose clients went away: the work goes on without them (T02). */
export class InFlightCalls {
  #running = 0;
  #begun = 0;
  readonly #waiting: (() => void)[] = [];

  /** The same handlers, counted. */
  count<H extends object>(handlers: H): H {
    return wrapHandlers(handlers, (handler: Handler<never, object>) => this.#counted(handler));
  }

  /** How many calls there were, those at work included. */
  get begun(): number {
    return this.#begun;
  }

  /** The same for handlers of streams: one is at work until its last message, or until it is ended early. */
  countStreams<H extends object>(handlers: H): H {
    return wrapHandlers(handlers, (handler: StreamHandler<never, object>) => this.#countedStream(handler));
  }

  /** Resolves when no call is at work, or when it took too long: then with false. */
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
    return async (request, context) => {
      this.#running++;
      this.#begun++;
      try {
        return await handler(request, context);
      } finally {
        this.#ended();
      }
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
