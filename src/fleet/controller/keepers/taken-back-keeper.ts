import type { Logger } from 'pino';
import { LastReasons } from '../../../volume/flow/last-reasons.ts';
import { pause } from '../../../volume/flow/pause.ts';
import type { KubernetesApi } from '../../kubernetes/api.ts';
import type { ObjectPlace } from '../../kubernetes/stored-object.ts';
import {
  type ConfirmedTakenBack,
  deletedNotes,
  readTakenBack,
  settleTakenBack,
  sureNote,
  type TakenBack,
  takingBackMs,
} from '../../kubernetes/taken-back.ts';
import type { FleetMoves } from '../fleet-moves.ts';
import type { FleetState } from '../fleet-state.ts';
import { PassedOn, TooLate } from '../passed-on.ts';

export interface TakenBackKeeperOptions {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  readonly state: Pick<FleetState, 'believe' | 'doubted' | 'hasDoubted' | 'takenBack' | 'watch'>;
  readonly moves: Pick<FleetMoves, 'copyAt' | 'noteAt' | 'outdate'>;
  readonly log: Logger;
  readonly now?: () => number;
}

/** Interval of looks; a node that comes back has one at once. */
const lookMs = 20_000;
const shortestMs = 1_000;

/**
 * Tells nodes that come back after they were lost which of their volumes were taken back elsewhere: their copies are earlier
 * ones, and go to the trash. So at most one copy can be used again, without an operator.
 */
export class TakenBackKeeper {
  readonly #options: TakenBackKeeperOptions;
  readonly #now: () => number;
  readonly #logged = new LastReasons();
  /** Volumes for which a node had no answer in time: the others come first. */
  readonly #late = new Set<string>();

  constructor(options: TakenBackKeeperOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { state } = this.#options;
    let wake = new AbortController();
    const unwatch = state.watch((name) => {
      if (state.hasDoubted(name)) wake.abort();
    });
    while (!signal.aborted) {
      await this.look().catch((error: unknown) => this.#warn('the notes', error, {}));
      await pause(shortestMs, signal);
      // Random, so that the replicas do not look at the same time.
      await pause(lookMs * (0.5 + Math.random()), AbortSignal.any([signal, wake.signal]));
      wake = new AbortController();
    }
    unwatch();
  }

  /** @throws Unavailable */
  async look(): Promise<void> {
    const { api, place, state } = this.#options;
    const notes = await readTakenBack(api, place);
    // While it is not sure that a node took it back, the others are believed as before.
    const sure = new Map<string, ConfirmedTakenBack>();
    for (const [volumeId, note] of notes) {
      const counted = sureNote(note);
      if (counted !== undefined) sure.set(volumeId, counted);
    }
    const count = () => state.takenBack(new Map([...sure].map(([volumeId, { node }]) => [volumeId, node])));
    count();
    /** One call to a node that does not answer is enough for a look. */
    const silent = new Set<string>();
    for (const [volumeId, note] of [...notes].toSorted(([a], [b]) => this.#lateness(a) - this.#lateness(b))) {
      const standing = note.generation === undefined ? await this.#confirm(volumeId, note, silent) : note;
      const counted = standing && sureNote(standing);
      if (counted !== undefined && note.generation === undefined) {
        sure.set(volumeId, counted);
        count();
      }
      if (standing !== undefined && counted !== undefined) {
        await this.#outdateOthers(volumeId, { now: counted, deleted: deletedNotes(standing) }, silent);
      }
    }
  }

  /** The replica that had it taken back has not seen the end of it. @returns the note that stands then */
  async #confirm(volumeId: string, note: TakenBack, silent: Set<string>): Promise<TakenBack | undefined> {
    const { api, moves, place } = this.#options;
    if (this.#now() - Date.parse(note.at) < takingBackMs || silent.has(note.node)) return note;
    try {
      const seen = await moves.copyAt(note.node, volumeId);
      const isUnknown = seen.isHere === false && seen.elsewhere === undefined;
      const isNoted = isUnknown ? (await moves.noteAt(note.node, volumeId)).generation > 0 : undefined;
      this.#late.delete(volumeId);
      return await settleTakenBack(api, place, volumeId, { note, seen: { ...seen, isNoted } });
    } catch (error) {
      this.#failed(volumeId, note.node, error, silent);
      this.#warn(`${volumeId} at ${note.node}`, error, { volume_id: volumeId, node: note.node });
      return note;
    }
  }

  /** A node that refuses one volume is asked about the others: that may be in use for as long as its pod likes. */
  #failed(volumeId: string, node: string, error: unknown, silent: Set<string>): void {
    if (error instanceof TooLate) this.#late.add(volumeId);
    if (!(error instanceof PassedOn)) silent.add(node);
  }

  #lateness(volumeId: string): number {
    return this.#late.has(volumeId) ? 1 : 0;
  }

  async #outdateOthers(
    volumeId: string,
    { deleted, now }: { readonly now: ConfirmedTakenBack; readonly deleted: readonly ConfirmedTakenBack[] },
    silent: Set<string>,
  ): Promise<void> {
    const { log, state } = this.#options;
    for (const other of state.doubted(volumeId)) {
      if (silent.has(other)) continue;
      const facts = { volume_id: volumeId, node: other, now_on: now.node };
      try {
        let isOutdated = false;
        for (const note of [...deleted, now]) if (await this.#outdate(volumeId, note, other)) isOutdated = true;
        this.#late.delete(volumeId);
        state.believe(volumeId, other);
        if (isOutdated) log.info(facts, 'a node that was lost knows that a volume was taken back from it');
      } catch (error) {
        this.#failed(volumeId, other, error, silent);
        this.#warn(`${volumeId} at ${other}`, error, facts);
      }
    }
  }

  async #outdate(
    volumeId: string,
    { at, createdAt, generation, node }: ConfirmedTakenBack,
    other: string,
  ): Promise<boolean> {
    const word = { volumeId, generation, node, takenBackAt: at, createdAt };
    return (await this.#options.moves.outdate(other, word)).isOutdated;
  }

  #warn(about: string, error: unknown, facts: object): void {
    const reason = error instanceof Error ? error.message : 'unknown';
    if (!this.#logged.isNew(about, reason)) return;
    this.#options.log.warn({ ...facts, reason }, 'an earlier copy of a volume that was taken back may be usable');
  }
}
