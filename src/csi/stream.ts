import { once } from 'node:events';
import type { ServerWritableStream } from '@grpc/grpc-js';

/** The server's side of a call with a stream of responses, as bytes. */
export type ResponseStream = ServerWritableStream<Buffer, Buffer>;

/**
 * Sends the messages, each made when the client has taken those before it: a slow client costs the memory of a few
 * messages, however much there is to tell. Leaving early, for whatever reason, ends the source of the messages too.
 * @throws an error that `isAbort` knows, once the client is gone (SM13) or has been left
 */
export async function sendAll<M>(
  call: ResponseStream,
  end: AbortSignal,
  messages: AsyncIterable<M>,
  encode: (message: M) => Buffer,
): Promise<void> {
  for await (const message of messages) {
    end.throwIfAborted();
    // The stream never drains when the client is gone or does not read, and then the signal ends the wait.
    if (!call.write(encode(message))) await once(call, 'drain', { signal: end });
  }
  end.throwIfAborted();
}

/** Whether `error` is what an aborted signal makes of a wait, and of `throwIfAborted`. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}
