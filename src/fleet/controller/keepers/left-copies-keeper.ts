import type { Logger } from 'pino';
import { HoldfastError } from '../../../volume/errors.ts';
import { pause } from '../../../volume/flow/pause.ts';
import type { FleetMoves } from '../fleet-moves.ts';
import type { FleetState } from '../fleet-state.ts';

export interface LeftCopiesKeeperOptions {
  readonly state: Pick<FleetState, 'shared'>;
  readonly moves: Pick<FleetMoves, 'copyAt' | 'settle'>;
  readonly log: Logger;
}

const lookMs = 60_000;

/** The answer to whether one node has handed its copy over to another one. */
type Outcome = 'settled' | 'not-handed-over' | 'gone' | 'unknown';

/**
 * Ends moves whose source has not heard that the volume has arrived, and whose target has forgotten it, as its own disk was
 * replaced: the copy that was handed over goes to the trash. The target tells it itself otherwise. Where neither node has handed the
 * volume over, all disks of one of them may have been put back to an earlier state: only a person can say which copy counts.
 */
export class LeftCopiesKeeper {
  readonly #options: LeftCopiesKeeperOptions;
  /** The volumes that several nodes had at the last look: a move that ends now has it so for a moment. */
  #before: ReadonlySet<string> = new Set();
  /** The volumes of which two nodes have a copy that can be used, as was logged. */
  readonly #double = new Set<string>();

  constructor(options: LeftCopiesKeeperOptions) {
    this.#options = options;
  }

  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      await pause(lookMs * (0.5 + Math.random()), signal);
      if (signal.aborted) return;
      await this.look();
    }
  }

  async look(): Promise<void> {
    const { shared } = this.#options.state;
    const lasting = [...shared].filter(([volumeId]) => this.#before.has(volumeId));
    // A node that does not answer delays its own volumes only.
    await Promise.all(lasting.map(([volumeId, nodes]) => this.#settleAll(volumeId, nodes)));
    for (const volumeId of this.#double) if (!shared.has(volumeId)) this.#double.delete(volumeId);
    this.#before = new Set(shared.keys());
  }

  async #settleAll(volumeId: string, nodes: readonly string[]): Promise<void> {
    const outcomes: Outcome[] = [];
    for (const source of nodes) {
      for (const node of nodes) if (node !== source) outcomes.push(await this.#settle(source, { volumeId, node }));
    }
    if (this.#double.has(volumeId) || !outcomes.every((outcome) => outcome === 'not-handed-over')) return;
    this.#double.add(volumeId);
    this.#options.log.error(
      { volume_id: volumeId, nodes },
      'a volume is on two nodes, and neither has handed it over: one copy is of an earlier time. Look at both; calls are for the node that its PersistentVolume names. kubectl holdfast move cancel VOLUME --node OTHER sets the other one aside',
    );
  }

  async #settle(
    source: string,
    { node, volumeId }: { readonly volumeId: string; readonly node: string },
  ): Promise<Outcome> {
    const { log, moves } = this.#options;
    const facts = { volume_id: volumeId, node: source, now_on: node };
    try {
      const { generation, isVolume } = await moves.copyAt(node, volumeId);
      if (!isVolume) return 'gone';
      // It has never moved: none can have been handed over to that node.
      if (generation === 0) return 'not-handed-over';
      await moves.settle(source, { volumeId, generation, node });
      log.info(facts, 'a copy that was handed over went to the trash');
      return 'settled';
    } catch (error) {
      // Or one of them moves no volumes: the others are as they were.
      if (error instanceof HoldfastError && error.code === 'FAILED_PRECONDITION') return 'not-handed-over';
      const reason = error instanceof Error ? error.message : 'unknown';
      log.warn({ ...facts, reason }, 'a volume is on two nodes, and one of them cannot be asked');
      return 'unknown';
    }
  }
}
