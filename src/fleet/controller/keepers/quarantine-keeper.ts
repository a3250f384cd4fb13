import type { Logger } from 'pino';
import { z } from 'zod';
import { ApiRefusal, type KubernetesApi } from '../../kubernetes/api.ts';
import { SecretNotes } from '../../kubernetes/secret-notes.ts';
import type { ObjectPlace } from '../../kubernetes/stored-object.ts';
import { setTaint, type TaintEffect } from '../../kubernetes/taints.ts';
import type { FleetState } from '../fleet-state.ts';
import { keepLooking } from './keep-looking.ts';

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
/** Time for which no pool of the node may be in quarantine: a disk that works for a moment is not healthy. */
export const wellMs = 2 * 60_000;

/** Time of the taint. A newer version may store more. */
const schema = z.looseObject({ at: z.string() });

/**
 * Adds our taint to nodes with a pool in quarantine, and removes it again. A note precedes the taint, so that a replica
 * that was restarted removes it, too, and touches no other node. The state of a node without a link is not known, and
 * its taint is not changed.
 */
export class QuarantineKeeper {
  readonly #options: QuarantineKeeperOptions;
  readonly #notes: SecretNotes<z.infer<typeof schema>>;
  readonly #key: string;
  readonly #now: () => number;
  /**
   * The Nodes that this replica has tainted, by note: a taint that a user removed is not added again. A Node that was
   * deleted and registered again has lost it without anyone's intention.
   */
  readonly #given = new Map<string, { readonly at: string; readonly uid: string | undefined }>();
  /** Time since when a tainted node has no fault; a replica that does not know the reason for a taint waits as long. */
  #wellSince = new Map<string, number>();

  constructor(options: QuarantineKeeperOptions) {
    this.#options = options;
    this.#notes = new SecretNotes({ ...options, key: 'tainted-nodes', schema });
    this.#key = taintKeyOf(options.driverName);
    this.#now = options.now ?? Date.now;
  }

  /** Runs until the signal is aborted. */
  run(signal: AbortSignal): Promise<void> {
    const failed = 'cannot update the taints of nodes with a pool in quarantine';
    return keepLooking(signal, { lookMs, look: () => this.look(), log: this.#options.log, failed });
  }

  /** Compares nodes and notes once. The next look retries work that cannot be done now. @throws Unavailable */
  async look(): Promise<void> {
    const { state } = this.#options;
    // No node is known before that.
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
    // A pool whose disk is sick when its driver starts was never open, and does not count as healthy.
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
        // The failure may concern only this node, e.g. an admission webhook that forbids the change.
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
    if (isNew) log.warn({ node: name, taint: this.#key, effect }, 'tainted a node with a pool in quarantine');
  }

  /** Removes the taint. An unknown node has no driver to wait for, or is gone. */
  async #take(name: string, at: string): Promise<void> {
    const { api, log } = this.#options;
    const { isNew } = await setTaint(api, name, { key: this.#key, effect: undefined });
    // The other replica may have added it again meanwhile.
    await this.#notes.change((notes) => notes.get(name)?.at === at && notes.delete(name));
    this.#given.delete(name);
    if (isNew) log.info({ node: name, taint: this.#key }, 'removed the taint from a node: its pools have recovered');
  }
}

/** Unique to the driver. */
export function taintKeyOf(driverName: string): string {
  return `${driverName}/quarantine`;
}

/** The key of a note. A node's name has no spaces. */
function keyOf([name, at]: readonly [string, string]): string {
  return `${name} ${at}`;
}

function isOpen(state: FleetState, name: string): boolean {
  return state.node(name)?.closedPools.length === 0;
}

function isInQuarantine(state: FleetState, name: string): boolean {
  return state.has(name)?.pools.some((pool) => pool.state === 'quarantined') === true;
}
