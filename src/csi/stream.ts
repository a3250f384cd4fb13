/**
 * Sends the messages, each made when the client has taken those before it: a slow client costs the memory of a few
 * messages, however much there is to tell. Leaving early, for whatever reason, ends the source of the messages too.
 * @throws an error that `isAbort` knows, once the client is gone (SM13) or has been left
 */
export async function sendAll(
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

/** Whether `error` is what an aborted signal makes of a wait, and of `throwIfAborted`. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}
