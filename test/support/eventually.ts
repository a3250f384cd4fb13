import { setTimeout as delay } from 'node:timers/promises';

/** Only a failure takes this long. */
const patienceMs = 60_000;
const pauseMs = 10;

/** For what the driver or the kernel finishes behind the answer: tries until it holds, and fails as the last try did. */
export async function eventually(check: () => Promise<void> | void, limitMs = patienceMs): Promise<void> {
  const giveUpAt = performance.now() + limitMs;
  for (;;) {
    try {
      await check();
      return;
    } catch (error) {
      if (performance.now() >= giveUpAt) throw error;
      await delay(pauseMs);
    }
  }
}

/** For what may hang: fails if it takes longer than anything here should. */
export async function soon<T>(work: Promise<T>, complaint: string, limitMs = patienceMs): Promise<T> {
  const late = new AbortController();
  const complain = async (): Promise<never> => {
    await delay(limitMs, undefined, { signal: late.signal });
    throw new Error(complaint);
  };
  try {
    return await Promise.race([work, complain()]);
  } finally {
    late.abort();
  }
}
