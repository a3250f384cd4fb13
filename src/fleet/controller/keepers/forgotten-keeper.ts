import type { Logger } from 'pino';
import { pause } from '../../../volume/flow/pause.ts';
import type { KubernetesApi } from '../../kubernetes/api.ts';
import { type ForgottenNodes, objectionMs, readForgotten, takeBack } from '../../kubernetes/forgotten.ts';
import type { ObjectPlace } from '../../kubernetes/stored-object.ts';
import type { FleetState } from '../fleet-state.ts';
import { intervalMs } from './keep-looking.ts';

export interface ForgottenKeeperOptions {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  readonly state: FleetState;
  readonly log: Logger;
  readonly now?: () => number;
}

/** Interval of reads: an operator notes a node in the Secret through one replica. */
const lookMs = 10_000;
/** Time after which a note counts: each replica has seen it, and could object. */
export const settlesMs = 2 * objectionMs;

/**
 * Keeps the state in line with the nodes that the operator has declared gone. `holdfast forget-node` asks only one
 * replica if the node has a link, and a node may have one to another replica only: that replica removes the note.
 */
export class ForgottenKeeper {
  readonly #options: ForgottenKeeperOptions;
  readonly #now: () => number;
  /** Time at which this replica first saw a note, by the node's name and the time of the note. */
  #seen = new Map<string, number>();

  constructor(options: ForgottenKeeperOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Runs until the signal is aborted. Resolves when the notes have been read for the first time. */
  async start(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !(await this.#tryLook())) await pause(intervalMs(lookMs), signal);
    void this.#lookOn(signal);
  }

  /** Reads the notes once. @throws Unavailable */
  async look(): Promise<void> {
    const { log, state } = this.#options;
    const noted = await this.#withoutLinked();
    const nowMs = this.#now();
    this.#seen = new Map(
      [...noted].map(([name, { at }]) => [`${name} ${at}`, this.#seen.get(`${name} ${at}`) ?? nowMs]),
    );
    for (const name of noted.keys()) if (!state.wasForgotten(name)) log.warn({ node: name }, 'a node is forgotten');
    const settled = [...noted].filter(([name, { at }]) => {
      // By the clock of the replica that wrote it: this replica may have started later.
      const isOld = nowMs - Date.parse(at) >= 10 * settlesMs;
      return isOld || nowMs - (this.#seen.get(`${name} ${at}`) ?? nowMs) >= settlesMs;
    });
    state.forget(
      settled.map(([name]) => name),
      [...noted.keys()],
    );
  }

  /** The notes without nodes that have a link to this replica: they exist. */
  async #withoutLinked(): Promise<ForgottenNodes> {
    const { api, log, place, state } = this.#options;
    const noted = new Map(await readForgotten(api, place));
    for (const [name, { at }] of noted) {
      if (state.wasForgotten(name) || state.node(name)?.isLinked !== true) continue;
      await takeBack(api, place, name, at);
      noted.delete(name);
      log.warn({ node: name }, 'a node that has a link here is not forgotten');
    }
    return noted;
  }

  async #lookOn(signal: AbortSignal): Promise<void> {
    for (;;) {
      await pause(intervalMs(lookMs), signal);
      if (signal.aborted) return;
      await this.#tryLook();
    }
  }

  async #tryLook(): Promise<boolean> {
    try {
      await this.look();
      return true;
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown';
      this.#options.log.warn({ reason }, 'cannot read the forgotten nodes');
      return false;
    }
  }
}
