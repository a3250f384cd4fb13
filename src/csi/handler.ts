import type { MethodDefinition } from '@grpc/proto-loader';

/** The types of a service's handlers; the types of messages are generated from proto/. */

/** Facts about the call that a handler gets besides the request. */
export interface CallContext {
  /** Time at which the client stops waiting; undefined if it never does. Work continues after it (T02). */
  readonly deadline: Date | undefined;
  /** Adds fields to the call's log line, e.g. `{ pool }`. */
  note(fields: Readonly<Record<string, string | number>>): void;
}

/** Answers one call, or throws one of the errors of `volume/errors.ts`. */
export type Handler<Q, R> = (request: Q, context: CallContext) => Promise<Draft<R>>;

/** Facts that the handler of a stream gets besides those of `CallContext`. */
export interface StreamContext extends CallContext {
  /** Aborted when the client is gone or the driver stops: a stream has nothing that must be finished. */
  readonly signal: AbortSignal;
}

/**
 * Answers one call of a server-streaming RPC. The next message is requested when the client has room for it; `return()`
 * ends the iteration early when the client is gone.
 */
export type StreamHandler<Q, R> = (request: Q, context: StreamContext) => AsyncIterable<Draft<R>>;

/** Wraps each handler. All must have the type that `wrap` takes, e.g. unary ones. */
export function wrapHandlers<H extends object, F>(handlers: H, wrap: (handler: F) => F): H {
  const entries = Object.entries(handlers).map(([name, handler]) => [name, wrap(handler)]);
  // Only functions go in and out, each for the same RPC.
  return Object.fromEntries(entries) as H;
}

/** An outgoing message: a missing field has its default. A message that was read has all its fields. */
export type Draft<T> = T extends readonly (infer E)[]
  ? readonly Draft<E>[]
  : T extends object
    ? string extends keyof T
      ? Readonly<T>
      : { readonly [K in keyof T]?: Draft<T[K]> | null | undefined }
    : T;

/** An RPC with one request and one response. */
export interface Unary<Q, R> {
  readonly request: Q;
  readonly response: R;
}

/** An RPC with one request and a stream of responses. */
export interface ServerStream<Q, R> {
  readonly request: Q;
  readonly responses: R;
}

/** The RPCs of a service, derived from the generated types: only the handlers show which RPCs answer with a stream. */
export type MethodsOf<Definition, Implementation> = {
  readonly [K in keyof Definition as RpcName<K>]: Definition[K] extends MethodDefinition<
    infer _QIn,
    infer _RIn,
    infer Q,
    infer R
  >
    ? Implementation[K & keyof Implementation] extends (call: never) => void
      ? ServerStream<Q, R>
      : Unary<Q, R>
    : never;
};

/** Excludes the index signatures of grpc-js. */
type RpcName<K> = string extends K ? never : number extends K ? never : K;

/** The handlers of a service; an RPC without one is not offered. */
export type HandlersOf<Methods> = {
  readonly [K in keyof Methods]?:
    | (Methods[K] extends Unary<infer Q, infer R>
        ? Handler<Q, R>
        : Methods[K] extends ServerStream<infer Q, infer R>
          ? StreamHandler<Q, R>
          : never)
    | undefined;
};
