import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { z } from 'zod';
import { pause } from '../../../volume/flow/pause.ts';
import type { KubernetesApi } from '../../kubernetes/api.ts';
import { forgetSecondsOf, isNodeThere } from '../../kubernetes/classes.ts';
import type { RecordedVolume } from '../../kubernetes/persistent-volumes.ts';
import { SecretNotes } from '../../kubernetes/secret-notes.ts';
import type { ObjectPlace } from '../../kubernetes/stored-object.ts';
import { countGone, forgettable, type Gone, type Seen, seenNow } from '../../routing/gone.ts';
import type { FleetState } from '../fleet-state.ts';
import { keepLooking } from './keep-looking.ts';

export interface GoneNodesOptions {
  readonly api: KubernetesApi;
  readonly place: ObjectPlace;
  readonly state: FleetState;
  readonly log: Logger;
  readonly driverName: string;
  /** A monotonic clock. */
  readonly now?: () => number;
}

/**
 * Interval of looks. While any deletion waits for a node that is gone, each look writes to the Secret, which every
 * kubelet receives.
 */
const lookMs = 10 * 60_000;

/** A newer version may store more. */
const schema = z.looseObject({ id: z.string(), seconds: z.int().min(0), asked: z.int().min(0) });

/**
 * Counts for how long nodes are gone that deletions wait for. The count begins with the first deletion that waits, and
 * runs only while a controller runs; a node that comes back resets it.
 */
export class GoneNodes {
  readonly #options: GoneNodesOptions;
  readonly #notes: SecretNotes<Gone>;
  readonly #now: () => number;
  #seen = new Map<string, Seen>();
  readonly #asked = new Set<string>();
  /** Nodes that were known at the last look, or since, even for a moment: the number of their last sighting. */
  readonly #sighted = new Map<string, number>();
  #sightings = 0;
  #wake = new AbortController();

  constructor(options: GoneNodesOptions) {
    this.#options = options;
    this.#notes = new SecretNotes<Gone>({ ...options, key: 'gone-nodes', schema });
    this.#now = options.now ?? (() => performance.now());
    options.state.onAppearance((name) => {
      this.#sight(name);
      // The other replica relies on the note, and may have no link.
      if (this.#seen.has(name)) this.#wake.abort();
    });
  }

  /** Runs until the signal is aborted. */
  run(signal: AbortSignal): Promise<void> {
    const failed = 'cannot update how long nodes have been gone';
    const looking = { lookMs, look: () => this.look(), log: this.#options.log, failed };
    return keepLooking(signal, looking, async (ms) => {
      await pause(ms, AbortSignal.any([signal, this.#wake.signal]));
      this.#wake = new AbortController();
    });
  }

  /** Updates the counts once. @throws Unavailable */
  async look(): Promise<void> {
    const { api, state } = this.#options;
    if (!state.areNodesKnown) return;
    const noted = await this.#notes.read();
    const asked = new Set(this.#asked);
    const isThere = new Map<string, boolean>();
    for (const node of new Set([...noted.keys(), ...asked])) isThere.set(node, await isNodeThere(api, node));
    let sightings = 0;
    const nowMs = this.#now();
    const notes = await this.#notes.change((current) => {
      sightings = this.#sightings;
      const isGone = (node: string) => {
        if (state.node(node) !== undefined || this.#sighted.has(node)) return false;
        const there = isThere.get(node);
        return there === undefined ? undefined : !there;
      };
      const hasChanged = countGone(current, { asked, isGone, nowMs, seen: this.#seen, newId: randomUUID });
      for (const { name } of state.nodes) this.#sight(name);
      return hasChanged;
    });
    this.#seen = seenNow(notes, this.#seen, this.#now());
    for (const node of asked) this.#asked.delete(node);
    for (const [node, at] of this.#sighted) if (at <= sightings) this.#sighted.delete(node);
  }

  /**
   * Answers if the deletion of a volume that no node has may succeed: its class has a limit, and its node has been gone
   * for longer.
   * @throws Unavailable
   */
  async mayForget(records: readonly RecordedVolume[]): Promise<boolean> {
    const { api, driverName, log } = this.#options;
    const found = forgettable(records);
    if (found === undefined || this.#isKnown(found.node)) return false;
    const { className, node } = found;
    const limit = await forgetSecondsOf(api, driverName, className);
    if (limit === undefined) return false;
    this.#asked.add(node);
    const gone = (await this.#notes.read()).get(node);
    if (gone === undefined || gone.seconds < limit) return false;
    // Notes that are minutes old may be outdated.
    if ((await isNodeThere(api, node)) || this.#isKnown(node)) return false;
    const [volume] = records;
    log.warn({ volume_id: volume?.handle, node, class: className }, 'forgot a volume of a node that is gone');
    return true;
  }

  #sight(node: string): void {
    this.#sighted.set(node, ++this.#sightings);
  }

  #isKnown(node: string): boolean {
    const { state } = this.#options;
    return !state.areNodesKnown || state.node(node) !== undefined || this.#sighted.has(node);
  }
}
