import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import { Unavailable } from '../../volume/errors.ts';
import { forwarded, type Outcome } from './events.ts';
import { LinkLost, PassedOn, TooLate } from './passed-on.ts';

/** A request for a node. */
export interface Forward {
  /** The :path of gRPC. */
  readonly method: string;
  readonly request: Buffer;
  readonly deadline: Date | undefined;
  /** Name of the object to make: a later try finds the earlier one in progress by it. */
  readonly name?: string;
  /** For streams: the number of messages in flight; default: creditParts. */
  readonly credit?: number;
}

/**
 * Limit for one node; more calls are refused at once. A node that hangs answers none of its calls, and waiting callers
 * would take the places that a sidecar has for calls to other nodes.
 */
export const maxCallsEach = 32;

/** Streams, for backups, last as long as their reader wants: they have separate places. */
const maxStreamsEach = 32;

/** The call was not sent: nothing was done. */
export class Refused extends Unavailable {}

/** Messages of a stream in flight. */
const creditParts = 8;

/** Time after which a caller without a deadline is answered that the work continues. */
const longestWaitMs = 10 * 60_000;

interface Waiting {
  readonly kind: 'call' | 'stream';
  readonly name?: string | undefined;
  answered(answer: wire.CallAnswer): void;
  part(response: Buffer): void;
  failed(error: Error): void;
}

/** The calls in progress to one node, over one link. */
export class ForwardedCalls {
  readonly #node: string;
  readonly #send: (message: Draft<wire.FromController>) => void;
  readonly #waiting = new Map<bigint, Waiting>();
  #last = 0n;
  #refusal: string | undefined;

  constructor(node: string, send: (message: Draft<wire.FromController>) => void) {
    this.#node = node;
    this.#send = send;
  }

  get running(): number {
    return this.#waiting.size;
  }

  /** Answers if a call that makes an object with this name is in progress. */
  isMaking(name: string): boolean {
    return [...this.#waiting.values()].some((waiting) => waiting.name === name);
  }

  /** @throws PassedOn, Unavailable, TooLate */
  call(forward: Forward): Promise<Buffer> {
    const outcome = this.#outcome();
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        outcome(error);
        reject(error);
      };
      this.#begin(forward, {
        kind: 'call',
        name: forward.name,
        answered: ({ code, message, response }) => {
          clearTimeout(timer);
          if (code !== 0) return fail(new PassedOn(code, message));
          outcome(undefined);
          resolve(Buffer.from(response));
        },
        part: () => undefined,
        failed: (error) => {
          clearTimeout(timer);
          fail(error);
        },
      });
      // The call keeps its place until the node has done it: repeated calls to a node that hangs meet the limit.
      const timer = setTimeout(() => fail(this.#tooLate(forward)), waitMs(forward));
    });
  }

  /** @throws PassedOn, Unavailable, TooLate */
  async *stream(forward: Forward, signal: AbortSignal): AsyncGenerator<Buffer, void, void> {
    const outcome = this.#outcome();
    const parts: Buffer[] = [];
    let { credit = creditParts } = forward;
    let end: { readonly error?: Error } | undefined;
    let wake = (): void => undefined;
    const finish = (error?: Error) => {
      end ??= error === undefined ? {} : { error };
      wake();
    };
    const id = this.#begin(forward, {
      kind: 'stream',
      answered: ({ code, message }) => finish(code === 0 ? undefined : new PassedOn(code, message)),
      part: (response) => {
        // Keeps a node that ignores the limit from filling the memory.
        if (credit-- <= 0) return finish(new Unavailable(`Node ${this.#node} sent more than it was allowed.`));
        parts.push(response);
        wake();
      },
      failed: finish,
    });
    const leave = () => finish(signal.reason instanceof Error ? signal.reason : new LinkLost('The caller went away.'));
    const timer = setTimeout(() => finish(this.#tooLate(forward)), waitMs(forward));
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave();
    try {
      for (;;) {
        for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
          yield part;
          credit++;
          this.#send({ credit: { call: id, parts: 1 } });
        }
        if (end !== undefined) break;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      if (end.error !== undefined) throw end.error;
    } finally {
      clearTimeout(timer);
      outcome(end === undefined ? new Error('the caller stopped reading') : end.error);
      signal.removeEventListener('abort', leave);
      if (this.#waiting.delete(id)) this.#send({ cancel: { call: id } });
    }
  }

  answered(answer: wire.CallAnswer): void {
    const waiting = this.#waiting.get(answer.call);
    // A late or repeated answer, which no caller waits for.
    if (waiting === undefined) return;
    this.#waiting.delete(answer.call);
    waiting.answered(answer);
  }

  part({ call, response }: wire.StreamPart): void {
    this.#waiting.get(call)?.part(Buffer.from(response));
  }

  /** Refuses new calls; running ones continue. */
  refuse(reason: string): void {
    this.#refusal = reason;
  }

  /** The link is gone: the call may have been done or not, so the caller repeats it. */
  fail(reason: string): void {
    this.refuse(reason);
    const lost = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const waiting of lost) {
      waiting.failed(new LinkLost(`The link to node ${this.#node} was lost (${reason}); try again.`));
    }
  }

  #begin({ credit = creditParts, deadline, method, request }: Forward, waiting: Waiting): bigint {
    const refusal = this.#refusalNow(waiting.kind);
    if (refusal !== undefined) {
      forwarded.publish({ node: this.#node, outcome: 'REFUSED' });
      throw refusal;
    }
    this.#last++;
    this.#waiting.set(this.#last, waiting);
    const leftMs = deadline === undefined ? 0 : Math.max(1, deadline.getTime() - Date.now());
    const call = {
      call: this.#last,
      method,
      request,
      timeout_milliseconds: Math.min(leftMs, 2 ** 31),
      credit,
    };
    this.#send({ call });
    return this.#last;
  }

  #refusalNow(kind: Waiting['kind']): Unavailable | undefined {
    if (this.#refusal !== undefined) return new LinkLost(`Node ${this.#node}: ${this.#refusal}; try again.`);
    let running = 0;
    for (const waiting of this.#waiting.values()) if (waiting.kind === kind) running++;
    if (running < (kind === 'call' ? maxCallsEach : maxStreamsEach)) return undefined;
    const what = kind === 'call' ? 'calls in progress and answers none' : 'open streams';
    return new Refused(`Node ${this.#node} has ${running} ${what}; try again later.`);
  }

  /** Publishes the outcome of a call, once: a late answer belongs to a call that was given up. */
  #outcome(): (error: Error | undefined) => void {
    let isTold = false;
    return (error) => {
      if (!isTold) forwarded.publish({ node: this.#node, outcome: outcomeOf(error) });
      isTold = true;
    };
  }

  #tooLate({ method }: Forward): TooLate {
    const name = method.slice(method.lastIndexOf('/') + 1);
    return new TooLate(`Node ${this.#node} has not answered ${name} in time; the work continues, so try again.`);
  }
}

function outcomeOf(error: Error | undefined): Outcome {
  if (error === undefined) return 'OK';
  if (error instanceof PassedOn) return error.code;
  if (error instanceof TooLate) return 'TOO_LATE';
  return error instanceof LinkLost ? 'LINK_LOST' : 'CANCELLED';
}

function waitMs({ deadline }: Forward): number {
  return deadline === undefined ? longestWaitMs : Math.max(0, Math.min(deadline.getTime() - Date.now(), longestWaitMs));
}
