import { setTimeout as delay } from 'node:timers/promises';
import { CallError } from '../../support/client.ts';

/** What a CO calls again for (K01). */
const isForNow = (error: unknown): error is CallError =>
  error instanceof CallError && ['ABORTED', 'UNAVAILABLE', 'DEADLINE_EXCEEDED'].includes(error.code);
/** A machine that is emulated on a busy host stands still for seconds; what is refused for longer is refused. */
const mostTries = 10;
const pauseMs = 1000;

/** Makes a call as a CO does: again, if it was refused for now. @throws the last refusal */
export async function insist<T>(what: string, call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await call();
    } catch (error) {
      if (!isForNow(error) || tries === mostTries || signal?.aborted === true) throw error;
      console.log(`  ${what}: ${error.code}: ${error.message} Called again.`);
      await delay(pauseMs);
    }
  }
}
