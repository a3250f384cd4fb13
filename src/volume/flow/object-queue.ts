import { Aborted } from '../errors.ts';
import { withTimeout } from './with-timeout.ts';

interface QueuedCall {
  readonly what: string;
  /** undefined: its result is not shared. */
  readonly fingerprint: string | undefined;
  readonly isShared: boolean;
  readonly result: Promise<unknown>;
}

/** An object that a call needs while it works. */
export interface Claim {
  readonly object: string;
  /** The call only reads: other calls that only read may have the object at the same time. */
  readonly isShared?: boolean;
}

/** The object that stands for a volume's name while a call searches for, makes or restores a volume with that name. */
export function volumeNameKey(name: string): string {
  return `volume name ${JSON.stringify(name)}`;
}

/** Returns the same text for requests that may share one answer. Secrets must not be part of it. */
export function fingerprint(request: object): string {
  return JSON.stringify(request, (_key, value: unknown) => (typeof value === 'bigint' ? `${value}` : value));
}

/** Time that a call waits for another on the same object before it fails with ABORTED (K01). */
const defaultWaitTimeoutMs = 2_000;

/**
 * Runs one call at a time for each object. A call equal to the last one in the queue joins it and shares its result, so
 * a retry finds the work that its first try started (T01, T02). A different call waits for its turn for a moment, and
 * then gets ABORTED with the name of the call that it waited for.
 */
export class ObjectQueue {
  readonly #queues = new Map<string, QueuedCall[]>();
  readonly #waitTimeoutMs: number;

  constructor(timeoutMs = defaultWaitTimeoutMs) {
    this.#waitTimeoutMs = timeoutMs;
  }

  /**
   * @param object for example a volume id
   * @param what the RPC, for the message
   * @param fingerprint equal for calls that may share one result; secrets excluded
   */
  async run<T>(object: string, what: string, fingerprint: string, work: () => Promise<T>): Promise<T> {
    const last = this.#queues.get(object)?.at(-1);
    // Only the last one: a call behind an earlier one may undo its result, and this call came after both. Only this
    // method queues calls with a fingerprint, and `what` is compared too, so an equal call has this call's type.
    if (last?.what === what && last.fingerprint === fingerprint) return last.result as Promise<T>;
    return this.#enter(object, { what, fingerprint, isShared: false }, work);
  }

  /**
   * Holds several objects while `work` runs, beside those that `run` may hold already. Objects are always taken in the
   * same order, so that no two calls wait for each other. Such a call never joins another one.
   */
  async claim<T>(claims: readonly Claim[], what: string, work: () => Promise<T>): Promise<T> {
    const [first, ...rest] = [...claims].sort((a, b) => (a.object < b.object ? -1 : 1));
    if (first === undefined) return work();
    const { isShared = false, object } = first;
    return this.#enter(object, { what, fingerprint: undefined, isShared }, () => this.claim(rest, what, work));
  }

  /** Answers if any call holds this object now, or waits for it. */
  busy(object: string): boolean {
    return this.#queues.has(object);
  }

  async #enter<T>(object: string, entry: Omit<QueuedCall, 'result'>, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(object) ?? [];
    const ahead = queue.filter((call) => !(entry.isShared && call.isShared));
    const result = ahead.length === 0 ? work() : this.#after(object, ahead, work);
    const call: QueuedCall = { ...entry, result };
    queue.push(call);
    this.#queues.set(object, queue);
    try {
      return await result;
    } finally {
      queue.splice(queue.indexOf(call), 1);
      if (queue.length === 0) this.#queues.delete(object);
    }
  }

  /** Waits for all calls before: a call that gave up waiting ends long before the one that it waited for. */
  async #after<T>(object: string, ahead: readonly QueuedCall[], work: () => Promise<T>): Promise<T> {
    const settled = Promise.allSettled(ahead.map((call) => call.result));
    if ((await withTimeout(this.#waitTimeoutMs, settled)) === 'late') {
      throw new Aborted(`${object}: ${ahead[0]?.what} is still in progress; try again.`);
    }
    return work();
  }
}
