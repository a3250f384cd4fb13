import type { Logger } from 'pino';
import { pause } from '../../../volume/flow/pause.ts';
import type { KubernetesApi } from '../../kubernetes/api.ts';
import { type LostCopy, readLostCopies, settleLostCopy } from '../../kubernetes/lost-copies.ts';
import type { ObjectPlace } from '../../kubernetes/stored-object.ts';
import type { FleetMoves } from '../fleet-moves.ts';
import type { FleetState } from '../fleet-state.ts';

export interface LostCopiesKeeperOptions {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  readonly state: Pick<FleetState, 'node'>;
  readonly moves: Pick<FleetMoves, 'latestAt' | 'outdate'>;
  readonly log: Logger;
  readonly now?: () => number;
}

/** Interval of looks: a node that is there again is no longer lost. */
const lookMs = 20_000;
/** By then the other node has the order to take the volume back; while it does, it does not answer. */
export const takenBackMs = 60_000;

/**
 * Tells nodes that were lost, and are there again, which of their volumes went on elsewhere. So at most one copy can be used
 * again, without an operator.
 */
export class LostCopiesKeeper {
  readonly #options: LostCopiesKeeperOptions;
  readonly #now: () => number;
  /** The reasons in the log, by the copy: each is logged once. */
  #reasons = new Map<string, string>();

  constructor(options: LostCopiesKeeperOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      // Random, so that the replicas do not look at the same time.
      await pause(lookMs * (0.5 + Math.random()), signal);
      if (signal.aborted) return;
      await this.look().catch((error: unknown) => this.#tell('the notes', error, {}));
    }
  }

  /** @throws Unavailable */
  async look(): Promise<void> {
    const { api, place, state } = this.#options;
    for (const [lostNode, copies] of await readLostCopies(api, place)) {
      if (state.node(lostNode)?.isLinked !== true) continue;
      for (const [volumeId, { at, node }] of Object.entries(copies)) {
        if (this.#now() - Date.parse(at) < takenBackMs) continue;
        const facts = { volume_id: volumeId, node: lostNode, now_on: node };
        try {
          await this.#outdate({ lostNode, volumeId, node });
          await settleLostCopy(api, place, { lostNode, volumeId, at });
          this.#options.log.info(facts, 'a node that was lost knows that a volume went on elsewhere');
        } catch (error) {
          this.#tell(`${lostNode} ${volumeId}`, error, facts);
        }
      }
    }
  }

  async #outdate({ lostNode, node, volumeId }: LostCopy): Promise<void> {
    const { moves } = this.#options;
    const generation = await moves.latestAt(node, volumeId);
    // It did not take the volume back, or has none any more: the other copy may be the only one.
    if (generation > 0n) await moves.outdate(lostNode, { volumeId, generation, node });
  }

  #tell(about: string, error: unknown, facts: object): void {
    const reason = error instanceof Error ? error.message : 'unknown';
    if (this.#reasons.get(about) === reason) return;
    this.#reasons.set(about, reason);
    this.#options.log.warn({ ...facts, reason }, 'a copy of a volume on a node that was lost can still be used');
  }
}
