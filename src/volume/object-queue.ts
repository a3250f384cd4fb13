import { Aborted } from './errors.ts';
import { withTimeout } from './with-timeout.ts';

interface QueuedCall {
  readonly what: string;
  /** undefined: its result is its own. */
  readonly fingerprint: string | undefined;
  readonly isShared: boolean;
  readonly result: Promise<unknown>;
}

/** An object that a call needs while it works. */
export interface Claim {
  readonly object: string;
  /** It only looks: others that only look may have the object at the same time. */
  readonly isShared?: boolean;
}

/** What stands for a volume's name while somebody looks for it and makes, or brings back, a volume that has it. */
export function volumeNameKey(name: string): string {
  return `volume name ${JSON.stringify(name)}`;
}

/** How long a call waits for another on the same object before it is told to come back (K01). */
const patienceMs = 2_000;

/**
 * One call at a time for one object. A call equal to the last one in line joins it and shares its result, which is how a
 * retry finds the work its first try started (T01, T02). A different call waits its turn for a moment, in order, and
 * then gets ABORTED with the name of what it waited for.
 */
export class ObjectQueue {
  readonly #lines = new Map<string, QueuedCall[]>();
  readonly #patienceMs: number;

  constructor(waitMs = patienceMs) {
    this.#patienceMs = waitMs;
  }

  /**
   * @param object what may be worked on by one call at a time: a volume id
   * @param what the RPC, for the message
   * @param fingerprint equal for calls that may share one result; secrets excluded
   */
  async run<T>(object: string, what: string, fingerprint: string, work: () => Promise<T>): Promise<T> {
    const last = this.#lines.get(object)?.at(-1);
    // Only the last: what an earlier one achieves, a call behind it may undo, and this one came after both.
    // Only this method puts calls with a fingerprint in, keyed by RPC, so an equal call has this call's type.
    if (last?.what === what && last.fingerprint === fingerprint) return last.result as Promise<T>;
    return this.#enter(object, { what, fingerprint, isShared: false }, work);
  }

  /**
   * Holds several objects while `work` runs, beside what `run` may hold already. They are taken in one order, so that no
   * two calls wait for each other. Such a call never joins another one.
   */
  async claim<T>(claims: readonly Claim[], what: string, work: () => Promise<T>): Promise<T> {
    const [first, ...rest] = [...claims].sort((a, b) => (a.object < b.object ? -1 : 1));
    if (first === undefined) return work();
    const { isShared = false, object } = first;
    return this.#enter(object, { what, fingerprint: undefined, isShared }, () => this.claim(rest, what, work));
  }

  /** Whether any call works on this object now. */
  busy(object: string): boolean {
    return this.#lines.has(object);
  }

  async #enter<T>(object: string, entry: Omit<QueuedCall, 'result'>, work: () => Promise<T>): Promise<T> {
    const line = this.#lines.get(object) ?? [];
    const ahead = line.filter((call) => !(entry.isShared && call.isShared));
    const result = ahead.length === 0 ? work() : this.#after(object, ahead, work);
    const call: QueuedCall = { ...entry, result };
    line.push(call);
    this.#lines.set(object, line);
    try {
      return await result;
    } finally {
      line.splice(line.indexOf(call), 1);
      if (line.length === 0) this.#lines.delete(object);
    }
  }

  /** Waits for all that came before: one that gave up waiting is done long before the one it waited for. */
  async #after<T>(object: string, ahead: readonly QueuedCall[], work: () => Promise<T>): Promise<T> {
    const settled = Promise.allSettled(ahead.map((call) => call.result));
    if ((await withTimeout(this.#patienceMs, settled)) === 'late') {
      throw new Aborted(`${object}: ${ahead[0]?.what} is still at work on it; try again.`);
    }
    return work();
  }
}
