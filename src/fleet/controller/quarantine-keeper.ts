import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import { ApiRefusal, type KubernetesApi } from '../kubernetes/api.ts';
import { SecretNotes } from '../kubernetes/secret-notes.ts';
import type { ObjectPlace } from '../kubernetes/stored-object.ts';
import { setTaint, type TaintEffect } from '../kubernetes/taints.ts';
import type { FleetState } from './fleet-state.ts';

export interface QuarantineKeeperOptions {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  readonly state: FleetState;
  readonly log: Logger;
  readonly driverName: string;
  readonly effect: TaintEffect;
  readonly now?: () => number;
}

const lookMs = 10_000;
/** A disk that answers for a moment is not well: so long no pool of the node may be in quarantine. */
export const wellMs = 2 * 60_000;

/** When it was given. A newer version may note more. */
const schema = z.looseObject({ at: z.string() });

/**
 * Gives nodes with a pool in quarantine a taint of our own, and takes it away. Which nodes have it is noted before they get
 * it, so that a replica that is started anew takes it away, too, and looks at no other node. Of a node without a link
 * nothing is known, and nothing is changed.
 */
export class QuarantineKeeper {
  readonly #options: QuarantineKeeperOptions;
  readonly #notes: SecretNotes<z.infer<typeof schema>>;
  readonly #key: string;
  readonly #now: () => number;
  /**
   * To which Node this replica has given it, by what is noted: who takes the taint away by hand is not contradicted. A Node
   * that was deleted and registered anew has lost it by nobody's will.
   */
  readonly #given = new Map<string, { readonly at: string; readonly uid: string | undefined }>();
  /** Since when nothing is wrong with nodes that have it; a replica that has not heard yet why one has it waits as long. */
  #wellSince = new Map<string, number>();

  constructor(options: QuarantineKeeperOptions) {
    this.#options = options;
    this.#notes = new SecretNotes({ ...options, key: 'tainted-nodes', schema });
    this.#key = taintKeyOf(options.driverName);
    this.#now = options.now ?? Date.now;
  }

  /** Until the signal ends it. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      await delay(lookMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      await this.look().catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : 'unknown';
        this.#options.log.warn({ reason }, 'taints of nodes with a pool in quarantine cannot be kept');
      });
    }
  }

  /** Looks once. What cannot be done now, the next look does. @throws Unavailable */
  async look(): Promise<void> {
    const { state } = this.#options;
    // Before that none is known.
    if (!state.areNodesKnown) return;
    const nowMs = this.#now();
    const there = state.nodes.filter(({ hasTold, isLinked }) => isLinked && hasTold).map(({ name }) => name);
    const sick = new Set(there.filter((name) => isInQuarantine(state, name)));
    const noted = await this.#notes.change((notes) => {
      const isNew = [...sick].filter((name) => !notes.has(name));
      for (const name of isNew) notes.set(name, { at: new Date(nowMs).toISOString() });
      return isNew.length > 0;
    });
    const tainted = new Map([...this.#given, ...noted].map(([node, { at }]) => [node, at]));
    // A pool whose disk is sick when its driver starts was never open: that is no reason to call it well.
    const well = [...tainted].filter(([name]) => there.includes(name) && !sick.has(name) && isOpen(state, name));
    const before = this.#wellSince;
    this.#wellSince = new Map(well.map((one) => [keyOf(one), before.get(keyOf(one)) ?? nowMs]));
    let refusal: ApiRefusal | undefined;
    for (const [name, at] of tainted) {
      const wellForMs = nowMs - (this.#wellSince.get(keyOf([name, at])) ?? nowMs);
      try {
        if (sick.has(name)) await this.#give(name, at);
        else if (wellForMs >= wellMs || state.node(name) === undefined) await this.#take(name, at);
      } catch (error) {
        // It may be of this node alone: somebody's admission webhook does not let it be changed, say.
        if (!(error instanceof ApiRefusal)) throw error;
        refusal ??= error;
      }
    }
    if (refusal !== undefined) throw refusal;
  }

  async #give(name: string, at: string): Promise<void> {
    const { api, effect, log } = this.#options;
    const before = this.#given.get(name);
    const exceptUid = before?.at === at ? before.uid : undefined;
    const { isNew, uid } = await setTaint(api, name, { key: this.#key, effect, exceptUid });
    this.#given.set(name, { at, uid });
    if (isNew) log.warn({ node: name, taint: this.#key, effect }, 'a node with a pool in quarantine is tainted');
  }

  /** A node that is no more known has no driver that could be waited for, or is gone. */
  async #take(name: string, at: string): Promise<void> {
    const { api, log } = this.#options;
    const { isNew } = await setTaint(api, name, { key: this.#key, effect: undefined });
    // Meanwhile the other replica may have given it anew.
    await this.#notes.change((notes) => notes.get(name)?.at === at && notes.delete(name));
    this.#given.delete(name);
    if (isNew) log.info({ node: name, taint: this.#key }, 'a node is no longer tainted: its pools are well');
  }
}

/** No other driver has it. */
export function taintKeyOf(driverName: string): string {
  return `${driverName}/quarantine`;
}

/** Of what is noted. A node's name has no spaces. */
function keyOf([name, at]: readonly [string, string]): string {
  return `${name} ${at}`;
}

function isOpen(state: FleetState, name: string): boolean {
  return state.node(name)?.closedPools.length === 0;
}

function isInQuarantine(state: FleetState, name: string): boolean {
  return state.has(name)?.pools.some((pool) => pool.state === 'quarantined') === true;
}
