/**
 * Sends the messages. Each is made when the client has taken those before it: a slow client costs the memory of a few
 * messages, however long the answer is. Leaving early, for any reason, ends the source of the messages too.
 * @throws an error that `isAbort` recognises, once the client is gone (SM13) or was given up
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

/** Recognises the error of `throwIfAborted`, and of a wait that was aborted. */
export function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}
