import { setTimeout as delay } from 'node:timers/promises';

/** Waits. Ends early when the signal is aborted. Never rejects. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await delay(ms, undefined, { ...(signal !== undefined && { signal }) }).catch(() => undefined);
}
