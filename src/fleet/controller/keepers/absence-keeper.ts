import type { Logger } from 'pino';
import type { Claim, Notice } from '../../kubernetes/claim-events.ts';
import type { RecordedVolume } from '../../kubernetes/persistent-volumes.ts';
import type { SecretNotes } from '../../kubernetes/secret-notes.ts';
import { type Absence, settleAbsences } from '../../routing/absences.ts';
import type { ClaimTeller } from '../claim-teller.ts';
import type { FleetState } from '../fleet-state.ts';
import { keepLooking } from './keep-looking.ts';

export interface AbsenceKeeperOptions {
  readonly state: FleetState;
  readonly notes: Pick<SecretNotes<Absence>, 'change'>;
  readonly teller: Pick<ClaimTeller, 'want' | 'hasTold'>;
  readonly volumes: () => AsyncIterable<RecordedVolume>;
  readonly log: Logger;
  /** Time that a node may be away before events on its claims say it. */
  readonly afterMs: number;
  readonly now?: () => number;
}

const lookMs = 10_000;
/**
 * An absence is noted before claims get events; a replica with a link to the node removes the note within this time.
 */
const longestDoubtMs = 60_000;
/** Time for which an absence that another replica contradicted is not noted again. */
export const deniedMs = 10 * 60_000;
/** Interval between lists of PersistentVolumes: they also name nodes that Kubernetes does not know any more. */
const listMs = 5 * 60_000;
/** Minimum interval, whatever nodes do; also the pause before the next list after a failure. */
const shortestListMs = 30_000;

/** Writes events on claims when their node goes away and when it comes back. */
export class AbsenceKeeper {
  readonly #options: AbsenceKeeperOptions;
  readonly #now: () => number;
  readonly #doubtMs: number;
  /** Times at which this replica first saw each absence in the notes. */
  #standing = new Map<string, number>();
  readonly #deniedUntilMs = new Map<string, number>();
  /** Nodes that claims are on, by the last list; undefined: there was none yet. */
  #needed: ReadonlySet<string> | undefined;
  /** Needed nodes that are unknown here, with the time since when. */
  #unknown = new Map<string, number>();
  /** Claims of the nodes that were away when PersistentVolumes were listed. */
  #claims = new Map<string, Claim[]>();
  #listedAtMs = Number.NEGATIVE_INFINITY;
  #noted: readonly string[] = [];
  /** Ended absences for which this replica writes events. */
  #ending = new Set<string>();

  constructor(options: AbsenceKeeperOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#doubtMs = Math.min(longestDoubtMs, options.afterMs);
  }

  /** Runs until the signal is aborted. */
  run(signal: AbortSignal): Promise<void> {
    const failed = 'cannot write the notes of nodes that are away';
    return keepLooking(signal, { lookMs, look: () => this.look(), log: this.#options.log, failed });
  }

  /** Compares the notes with the state once. The next look retries work that cannot be done now. @throws Unavailable */
  async look(): Promise<void> {
    const { notes, state, teller } = this.#options;
    if (!state.areNodesKnown) return;
    const nowMs = this.#now();
    if (nowMs - this.#listedAtMs >= listMs) await this.#list(nowMs);
    const needed = this.#needed;
    if (needed === undefined) return;
    const unknown = [...needed].filter((node) => state.node(node) === undefined);
    this.#unknown = new Map(unknown.map((node) => [node, this.#unknown.get(node) ?? nowMs]));
    const away = this.#away(nowMs);
    const there = new Set(state.nodes.filter((node) => node.isLinked && node.hasTold).map(({ name }) => name));
    const noted = await notes.change((absences) =>
      settleAbsences(absences, {
        away,
        there,
        isCertain: (node, { since }) =>
          nowMs - (this.#standing.get(keyOf(node, since)) ?? Number.POSITIVE_INFINITY) >= this.#doubtMs,
        isAllTold: (node, { since }) => this.#ending.has(keyOf(node, since)) && teller.hasTold(node),
        isNobodys: (node) => state.isForgotten(node) || (state.node(node) === undefined && !needed.has(node)),
        nowMs,
      }),
    );
    this.#noted = [...noted.keys()];
    this.#keepStanding(noted, nowMs);
    const wanted = [...noted].filter(([, { told }]) => told === true);
    const isUnlisted = wanted.some(([node]) => !this.#claims.has(node));
    const pauseMs = Math.min(shortestListMs, this.#options.afterMs);
    if (isUnlisted && nowMs - this.#listedAtMs >= pauseMs) await this.#list(nowMs);
    const notices = wanted.flatMap(([node, absence]) => this.#notices(node, absence, there));
    const ends = wanted.filter(([node, { back }]) => back !== undefined && this.#claims.has(node));
    this.#ending = new Set(ends.map(([node, { since }]) => keyOf(node, since)));
    teller.want(notices);
  }

  /** Nodes that have been away for long enough, except those that another replica contradicted. */
  #away(nowMs: number): Map<string, number> {
    const { afterMs, state } = this.#options;
    const since = new Map(this.#unknown);
    for (const { isLinked, name, sinceMs } of state.nodes) if (!isLinked) since.set(name, sinceMs);
    for (const [node, sinceMs] of since) {
      const isLong = nowMs - sinceMs >= afterMs - this.#doubtMs;
      const isDenied = nowMs < (this.#deniedUntilMs.get(node) ?? 0);
      if (!isLong || isDenied || state.node(node)?.isLinked === true) since.delete(node);
    }
    return since;
  }

  #keepStanding(noted: ReadonlyMap<string, Absence>, nowMs: number): void {
    const before = this.#standing;
    const standing = [...noted].filter(([, { back }]) => back === undefined);
    this.#standing = new Map(
      standing.map(([node, { since }]) => {
        const key = keyOf(node, since);
        return [key, before.get(key) ?? nowMs];
      }),
    );
    for (const [node, untilMs] of this.#deniedUntilMs) if (untilMs <= nowMs) this.#deniedUntilMs.delete(node);
    for (const key of before.keys()) {
      const [node = ''] = key.split(' ');
      // Another replica has a link to the node.
      if (!this.#standing.has(key) && this.#options.state.node(node)?.isLinked !== true) {
        this.#deniedUntilMs.set(node, nowMs + deniedMs);
      }
    }
  }

  /** The events for a node's return, which only a replica with a link to it writes. */
  #notices(node: string, { back, since }: Absence, there: ReadonlySet<string>): Notice[] {
    const claims = this.#claims.get(node) ?? [];
    if (back === undefined) {
      if (this.#options.state.node(node)?.isLinked === true) return [];
      return claims.map((claim) => ({ kind: 'away', claim, node, since }));
    }
    if (!there.has(node)) return [];
    const entries = this.#options.state.has(node)?.entries;
    return claims.map((claim) => ({
      kind: entries?.has(claim.volumeId) === true ? 'back' : 'missing',
      claim,
      node,
      since,
    }));
  }

  /** Lists the claims of nodes without a link, and of noted ones. */
  async #list(nowMs: number): Promise<void> {
    const { state, volumes } = this.#options;
    this.#listedAtMs = nowMs - listMs + shortestListMs;
    const claims = new Map<string, Claim[]>(this.#noted.map((node) => [node, []]));
    for (const { isLinked, name } of state.nodes) if (!isLinked) claims.set(name, []);
    const needed = new Set<string>();
    for await (const { claim, handle, node, phase } of volumes()) {
      if (node === undefined || claim === undefined || phase !== 'Bound') continue;
      needed.add(node);
      if (state.node(node) !== undefined && !claims.has(node)) continue;
      const { name, namespace, uid } = claim;
      const known = claims.get(node) ?? [];
      known.push({ name, namespace, uid, volumeId: handle });
      claims.set(node, known);
    }
    this.#needed = needed;
    this.#claims = claims;
    this.#listedAtMs = nowMs;
  }
}

/** A node's name has no spaces. */
function keyOf(node: string, since: string): string {
  return `${node} ${since}`;
}
