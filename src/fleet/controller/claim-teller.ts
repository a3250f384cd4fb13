import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { eventOf, type Notice, type NoticeSender, noticeName, sendEvent } from '../kubernetes/claim-events.ts';
import { claimTold } from './events.ts';

export interface ClaimTellerOptions extends NoticeSender {
  readonly api: KubernetesApi;
  readonly log: Logger;
  readonly now?: () => number;
}

/**
 * Time after which a claim gets its event again, if the absence lasts. Kubernetes usually keeps events for an hour, and
 * up to a minute longer as it deletes several at a time. Earlier, the new event would meet the old one, and be missing
 * for the next hour.
 */
export const repeatMs = 65 * 60_000;

/** Limit of our events at a time: they are objects in the API server's database. */
export const maxNotices = 10_000;

/** Five a second: the API server has other clients, and 5,000 claims get their events in 17 minutes. */
const paceMs = 200;
const idleMs = 1_000;
/** Pause after the API server refused an event for now. */
const pauseMs = 15_000;
const warnMs = 5 * 60_000;

/** Writes events on claims, one after the other. */
export class ClaimTeller {
  readonly #options: ClaimTellerOptions;
  readonly #now: () => number;
  /** Time of the last event for each wanted notice. */
  #toldAtMs = new Map<string, number>();
  #queue = new Map<string, Notice>();
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ClaimTellerOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Replaces the wanted notices. A notice is not repeated before `repeatMs`. */
  want(notices: readonly Notice[]): void {
    const wanted = notices.slice(0, maxNotices).map((notice) => ({ notice, name: noticeName(notice) }));
    const before = this.#toldAtMs;
    this.#toldAtMs = new Map(
      wanted.flatMap(({ name }) => {
        const at = before.get(name);
        return at === undefined ? [] : [[name, at] as const];
      }),
    );
    const isDue = (name: string) => this.#now() - (this.#toldAtMs.get(name) ?? Number.NEGATIVE_INFINITY) >= repeatMs;
    this.#queue = new Map(wanted.filter(({ name }) => isDue(name)).map(({ name, notice }) => [name, notice]));
  }

  /** Answers if all events about this node are written. */
  hasTold(node: string): boolean {
    return ![...this.#queue.values()].some((notice) => notice.node === node);
  }

  /** Writes one event. @returns false if there was none to write. @throws Unavailable if it must wait */
  async tellNext(): Promise<boolean> {
    const [next] = this.#queue;
    if (next === undefined) return false;
    const [name, notice] = next;
    const outcome = await sendEvent(this.#options.api, eventOf(notice, this.#options, this.#now()));
    this.#toldAtMs.set(name, this.#now());
    this.#queue.delete(name);
    if (outcome === 'sent') claimTold.publish({ kind: notice.kind });
    else this.#refused(notice, outcome.message);
    return true;
  }

  /** Logs one line: a missing right is missing for each claim. */
  #refused({ claim: { name: claim, namespace }, node }: Notice, reason: string): void {
    if (this.#now() - this.#warnedAtMs < warnMs) return;
    this.#warnedAtMs = this.#now();
    this.#options.log.warn({ namespace, claim, node, reason }, 'cannot write an event on a claim, and maybe on others');
  }

  /** Runs until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const pause = await this.tellNext().then(
        (hasTold) => (hasTold ? paceMs : idleMs),
        (error: unknown) => {
          const reason = error instanceof Error ? error.message : 'unknown';
          this.#options.log.warn({ reason }, 'cannot write events on claims now; retrying');
          return pauseMs;
        },
      );
      await delay(pause, undefined, { signal }).catch(() => undefined);
    }
  }
}
