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
 * Kubernetes keeps events for an hour, usually, and a minute longer as it lets several go at a time: then a claim is told
 * anew, if it is still so. Sooner it would find the old event, and be without one for the next hour.
 */
export const repeatMs = 65 * 60_000;

/** Events are objects of the API server's database: so many of ours are there at a time at most. */
export const mostNotices = 10_000;

/** Five a second: the API server has others to serve, and 5,000 claims are told in 17 minutes. */
const paceMs = 200;
const idleMs = 1_000;
/** After the API server could not take an event. */
const pauseMs = 15_000;
const warnMs = 5 * 60_000;

/** Tells claims by events, one after the other. */
export class ClaimTeller {
  readonly #options: ClaimTellerOptions;
  readonly #now: () => number;
  /** When each was told, of those that are wanted. */
  #toldAtMs = new Map<string, number>();
  #queue = new Map<string, Notice>();
  #warnedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ClaimTellerOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** From now on these are to be told, and no others. What was told is not told again before repeatMs. */
  want(notices: readonly Notice[]): void {
    const wanted = notices.slice(0, mostNotices).map((notice) => ({ notice, name: noticeName(notice) }));
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

  /** Whether nobody is left that is to be told of this node. */
  hasTold(node: string): boolean {
    return ![...this.#queue.values()].some((notice) => notice.node === node);
  }

  /** Tells one claim; whether there was one. @throws Unavailable if that has to wait */
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

  /** Who lacks a right lacks it for each claim: one line says it. */
  #refused({ claim: { name: claim, namespace }, node }: Notice, reason: string): void {
    if (this.#now() - this.#warnedAtMs < warnMs) return;
    this.#warnedAtMs = this.#now();
    this.#options.log.warn({ namespace, claim, node, reason }, 'a claim cannot be told, and maybe others');
  }

  /** Until the signal ends it. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const pause = await this.tellNext().then(
        (hasTold) => (hasTold ? paceMs : idleMs),
        (error: unknown) => {
          const reason = error instanceof Error ? error.message : 'unknown';
          this.#options.log.warn({ reason }, 'claims cannot be told now that their node is away, or back');
          return pauseMs;
        },
      );
      await delay(pause, undefined, { signal }).catch(() => undefined);
    }
  }
}
