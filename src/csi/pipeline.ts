import type { Logger } from 'pino';
import { HoldfastError, InvalidArgument, Unavailable } from '../volume/errors.ts';
import { CallLog } from './call-log.ts';
import { decode, encode, type Method } from './contract.ts';
import type { CallContext, Handler, StreamContext, StreamHandler } from './handler.ts';
import { checkLimits } from './limits.ts';
import { checkRequired } from './required.ts';
import { type FailureStatus, toStatus } from './status.ts';

/*
 * Processes one call from the bytes of its request to those of its answer. The call comes from the unix socket
 * (call.ts) or over a link (src/fleet).
 */

export interface CallOptions {
  readonly log: Logger;
  /** While it returns false, all services but Identity answer UNAVAILABLE: the driver is starting or stopping. */
  readonly ready?: () => boolean;
  /** Aborted when the driver stops. Streams end then, also if a client does not read: a client can resume them. */
  readonly stopping?: AbortSignal | undefined;
}

/** An incoming call. */
export interface Incoming {
  readonly bytes: Buffer;
  readonly deadline: Date | undefined;
  /** Answers if the client has gone away. Work is never undone because of it (T02). */
  isGone(): boolean;
}

/** An incoming call that a stream answers. */
export interface IncomingStream extends Incoming {
  /** Calls the listener once, when the client has gone away. */
  onGone(listener: () => void): void;
  /** Resolves when there is room for the next message. */
  send(bytes: Buffer, end: AbortSignal): Promise<void>;
}

export type Reply = { readonly response: Buffer } | { readonly failure: FailureStatus };

/** Does a call, and calls `reply` once. */
export type UnaryCall = (incoming: Incoming, reply: (reply: Reply) => void) => Promise<void>;
/** Sends the messages, and calls `end` once, with the failure if there is one. */
export type StreamCall = (incoming: IncomingStream, end: (failure: FailureStatus | undefined) => void) => Promise<void>;

/** The work for a valid request; returns the bytes of the answer. */
export type Work<Q> = (request: Q, context: CallContext, bytes: Buffer) => Promise<Buffer>;
export type StreamWork<Q> = (request: Q, context: StreamContext, bytes: Buffer) => AsyncIterable<Buffer>;

export function handled<Q extends object>(method: Method, handler: Handler<Q, object> | undefined) {
  if (handler === undefined) return undefined;
  return async (request: Q, context: CallContext) => encode(method.responseType, await handler(request, context));
}

export function handledStream<Q extends object>(method: Method, handler: StreamHandler<Q, object> | undefined) {
  if (handler === undefined) return undefined;
  return async function* (request: Q, context: StreamContext): AsyncGenerator<Buffer, void, void> {
    for await (const message of handler(request, context)) yield encode(method.responseType, message);
  };
}

export function unaryCall<Q extends object>(
  method: Method,
  work: Work<Q> | undefined,
  options: CallOptions,
): UnaryCall {
  return async (incoming, reply) => {
    const line = new CallLog(options.log, method);
    let response: Buffer;
    try {
      if (work === undefined) throw new Unimplemented(`${method.name} is not offered by this driver.`);
      const request = accept<Q>(method, incoming.bytes, line, options);
      response = await work(request, contextOf(incoming, line), incoming.bytes);
    } catch (error) {
      const failure = toStatus(error, line.subject);
      reply({ failure });
      line.failed(failure, incoming.isGone());
      return;
    }
    reply({ response });
    line.succeeded(incoming.isGone());
  };
}

export function streamCall<Q extends object>(
  method: Method,
  work: StreamWork<Q> | undefined,
  options: CallOptions,
): StreamCall {
  return async (incoming, end) => {
    const line = new CallLog(options.log, method);
    try {
      await answerAll(method, work, incoming, line, options);
    } catch (error) {
      if (incoming.isGone() && isAbort(error)) return line.abandoned();
      const failure = toStatus(error, line.subject);
      // Ends the stream with this status, after the messages that were sent already (SM12).
      if (!incoming.isGone()) end(failure);
      line.failed(failure, incoming.isGone());
      return;
    }
    end(undefined);
    line.succeeded(false);
  };
}

/** Answers with a stream. Unlike for a unary call, nothing is left to do once the client went away (SM13). */
async function answerAll<Q extends object>(
  method: Method,
  work: StreamWork<Q> | undefined,
  incoming: IncomingStream,
  line: CallLog,
  options: CallOptions,
): Promise<void> {
  if (work === undefined) throw new Unimplemented(`${method.name} is not offered by this driver.`);
  const request = accept<Q>(method, incoming.bytes, line, options);
  const end = new AbortController();
  const endIt = () => end.abort();
  incoming.onGone(endIt);
  options.stopping?.addEventListener('abort', endIt);
  const context = { ...contextOf(incoming, line), signal: end.signal };
  const mayGoOn = () => {
    if (options.ready?.() === false) throw new Unavailable('The driver is stopping; go on from where it was later.');
  };
  try {
    await sendAll(end.signal, work(request, context, incoming.bytes), (response) => {
      mayGoOn();
      return incoming.send(response, end.signal);
    });
  } catch (error) {
    if (!incoming.isGone() && isAbort(error)) mayGoOn();
    throw error;
  } finally {
    options.stopping?.removeEventListener('abort', endIt);
  }
}

/** @throws Unavailable, InvalidArgument */
function accept<Q extends object>(method: Method, bytes: Buffer, line: CallLog, options: CallOptions): Q {
  if (options.ready?.() === false) throw new Unavailable('The driver is starting or stopping; try again.');
  const request = readRequest<Q>(method, bytes);
  line.request(request);
  checkRequired(method.name, request);
  checkLimits(method.requestType, request);
  return request;
}

function contextOf({ deadline }: Incoming, line: CallLog): CallContext {
  return { deadline, note: (fields) => line.note(fields) };
}

function readRequest<Q>(method: Method, bytes: Buffer): Q {
  try {
    return decode<Q>(method.requestType, bytes);
  } catch (cause) {
    throw new InvalidArgument(`The request is not a well-formed ${method.requestType.name}.`, { cause });
  }
}

/** The capability for the RPC is not advertised (E05). */
class Unimplemented extends HoldfastError {
  override readonly code = 'UNIMPLEMENTED';
}

/**
 * Sends the messages. Each is made when the client has taken those before it: a slow client costs the memory of a few
 * messages, however long the answer is. Leaving early, for any reason, ends the source of the messages too.
 * @throws an error that `isAbort` recognises, once the client is gone (SM13) or was given up
 */
async function sendAll(
  end: AbortSignal,
  messages: AsyncIterable<Buffer>,
  send: (message: Buffer) => Promise<void>,
): Promise<void> {
  for await (const message of messages) {
    end.throwIfAborted();
    await send(message);
  }
  end.throwIfAborted();
}

/** Recognises the error of `throwIfAborted`, and of a wait that was aborted. */
function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}
