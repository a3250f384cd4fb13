import { once } from 'node:events';
import * as grpc from '@grpc/grpc-js';
import type { Calls } from '../../csi/call.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { Incoming, Reply, StreamCall, UnaryCall } from '../../csi/pipeline.ts';
import type { FailureStatus } from '../../csi/status.ts';

export interface LinkCallsOptions {
  send(message: Draft<wire.FromNode>): void;
  beforeAnswer(): Promise<void>;
}

/** Limit for one controller; more calls are refused. The controller has a lower limit. */
const maxCallsAtOnce = 256;

/** A stream to the controller in progress. */
class RunningStream extends EventTarget {
  credit: number;
  isGone = false;

  constructor(credit: number) {
    super();
    this.credit = credit;
  }

  gone(): void {
    this.isGone = true;
    this.dispatchEvent(new Event('gone'));
  }
}

/** The calls of one link, done by the same handlers as those of the unix socket. */
export class LinkCalls {
  readonly #calls: Calls;
  readonly #options: LinkCallsOptions;
  readonly #streams = new Map<bigint, RunningStream>();
  #running = 0;

  constructor(calls: Calls, options: LinkCallsOptions) {
    this.#calls = calls;
    this.#options = options;
  }

  async run(call: wire.ForwardedCall): Promise<void> {
    const unary = this.#calls.unary.get(call.method);
    const stream = this.#calls.streams.get(call.method);
    if (this.#running >= maxCallsAtOnce) {
      this.#answer(call, { code: grpc.status.UNAVAILABLE, message: 'The node has too many calls in progress.' });
      return;
    }
    this.#running++;
    try {
      if (unary !== undefined) await this.#runUnary(call, unary);
      else if (stream !== undefined) await this.#runStream(call, stream);
      else this.#answer(call, { code: grpc.status.UNIMPLEMENTED, message: 'The driver of the node has no such call.' });
    } finally {
      this.#running--;
    }
  }

  cancel(call: bigint): void {
    this.#streams.get(call)?.gone();
  }

  addCredit({ call, parts }: wire.StreamCredit): void {
    const stream = this.#streams.get(call);
    if (stream === undefined) return;
    stream.credit += parts;
    stream.dispatchEvent(new Event('credit'));
  }

  /** Ends all streams, as the link is gone. */
  abandonStreams(): void {
    for (const stream of this.#streams.values()) stream.gone();
  }

  async #runUnary(call: wire.ForwardedCall, unary: UnaryCall): Promise<void> {
    let reply: Reply | undefined;
    await unary(incomingOf(call), (answered) => {
      reply = answered;
    });
    // A report that fails now follows with the next change; the answer does not wait for a list that fails.
    await this.#options.beforeAnswer().catch(() => undefined);
    if (reply === undefined) return;
    this.#answer(call, 'failure' in reply ? statusOf(reply.failure) : { response: reply.response });
  }

  async #runStream(call: wire.ForwardedCall, stream: StreamCall): Promise<void> {
    const running = new RunningStream(call.credit);
    this.#streams.set(call.call, running);
    try {
      await stream(
        {
          ...incomingOf(call),
          isGone: () => running.isGone,
          onGone: (listener) => running.addEventListener('gone', listener, { once: true }),
          send: async (response, end) => {
            this.#options.send({ part: { call: call.call, response } });
            running.credit--;
            // The next message is made when the controller has room for it.
            while (running.credit <= 0) await once(running, 'credit', { signal: end });
          },
        },
        (failure) => this.#answer(call, failure === undefined ? {} : statusOf(failure)),
      );
    } finally {
      this.#streams.delete(call.call);
    }
  }

  #answer({ call }: wire.ForwardedCall, answer: Omit<Draft<wire.CallAnswer>, 'call'>): void {
    this.#options.send({ answer: { call, ...answer } });
  }
}

function incomingOf({ request, timeout_milliseconds: timeoutMs }: wire.ForwardedCall): Incoming {
  // The clocks of two machines differ, so the link transfers durations.
  const deadline = timeoutMs === 0 ? undefined : new Date(Date.now() + timeoutMs);
  return { bytes: Buffer.from(request), deadline, isGone: () => false };
}

function statusOf({ code, message }: FailureStatus): Pick<wire.CallAnswer, 'code' | 'message'> {
  return { code: grpc.status[code], message };
}
