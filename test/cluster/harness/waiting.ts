import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';

/** Tries until `check` does not throw, and says what it waited for when it gives up. */
export async function waitFor<T>(what: string, check: () => Promise<T> | T, patienceMs = 60_000): Promise<T> {
  const giveUpAt = performance.now() + patienceMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() >= giveUpAt) {
        const words = error instanceof Error ? error.message : String(error);
        throw new Error(`waited ${patienceMs / 1000} s for: ${what}. Last seen: ${words}`, { cause: error });
      }
      await delay(300);
    }
  }
}

/** Until Ctrl-C, or whatever else asks this process to end. */
export async function untilTold(): Promise<void> {
  // Waiting for a signal does not keep a process alive, a timer does.
  const alive = setInterval(() => undefined, 60_000);
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  clearInterval(alive);
}
