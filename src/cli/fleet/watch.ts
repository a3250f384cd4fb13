import { setImmediate } from 'node:timers/promises';
import type { z } from 'zod';
import { askFleet, type FleetAnswer } from '../../fleet/view/ask.ts';
import type { Watch } from '../../fleet/view/page-streams.ts';
import type { ViewedFleet } from '../../fleet/view/start.ts';
import { Board } from '../../page/board.ts';
import type { State } from '../../page/messages.ts';
import { showItems } from './board-items.ts';
import { nodeItem } from './nodes.ts';
import { anyItem } from './shapes.ts';

/** Interval at which a node is asked although it has reported no change: the use of its volumes, and their mounts. */
const refreshMs = 60_000;
/** The same while volumes move there: how far they have come. */
const movingRefreshMs = 5_000;
/** Time in which changes of a node gather before it is asked. */
const gatherMs = 500;
/** Time in which the ends of questions gather before the gaps of the lists are shown. */
const sayMs = 200;
/** Shortest time between two questions for one node. */
const restMs = 3_000;
/** Nodes that are asked at a time. */
const maxAtOnce = 64;
/** Time that a node may take. */
const waitMs = 30_000;
const maxBytesEach = 4 * 1024 * 1024;

interface Watched {
  /** When it is asked next: milliseconds of the process. */
  dueMs: number;
  askedMs: number;
  isAsked: boolean;
  hasAnswered: boolean;
  missing: State['missing'];
  problems: State['problems'];
}

/**
 * Keeps a board current while a page is open: a node is asked when it comes, when it reports a change, and once a minute.
 * Items of a node that has gone away stay, and `missing` says since when it is away.
 */
export class FleetWatch implements Watch {
  readonly board = new Board();
  readonly #fleet: ViewedFleet;
  readonly #nodes = new Map<string, Watched>();
  readonly #changed = new Set<string>();
  readonly #stop = new AbortController();
  readonly #unwatch: () => void;
  #running = 0;
  #gathering: NodeJS.Timeout | undefined;
  #waking: NodeJS.Timeout | undefined;
  #saying: NodeJS.Timeout | undefined;

  constructor(fleet: ViewedFleet) {
    this.#fleet = fleet;
    this.#unwatch = fleet.state.watch((name) => this.#hasChanged(name));
    for (const { name } of fleet.state.nodes) this.#changed.add(name);
    this.#look();
    // Before the first answer a page must not read that nothing is wrong.
    this.#say();
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
    this.#unwatch();
    clearTimeout(this.#gathering);
    clearTimeout(this.#waking);
    clearTimeout(this.#saying);
  }

  ask(node: string): void {
    const watched = this.#nodes.get(node);
    if (watched !== undefined) watched.dueMs = 0;
    this.#pump();
  }

  #hasChanged(name: string): void {
    this.#changed.add(name);
    this.#gathering ??= setTimeout(() => this.#look(), gatherMs).unref();
  }

  /** Shows the nodes that have changed, and has them asked. */
  #look(): void {
    this.#gathering = undefined;
    const { state } = this.#fleet;
    const nowMs = performance.now();
    for (const name of this.#changed) {
      const sight = state.node(name);
      if (sight === undefined) {
        this.#nodes.delete(name);
        this.board.drop(name);
        continue;
      }
      this.board.replace('nodes', name, [[name, nodeItem(this.#fleet, sight)]]);
      const watched = this.#watched(name);
      watched.dueMs = Math.min(watched.dueMs, Math.max(nowMs, watched.askedMs + restMs));
    }
    this.#changed.clear();
    this.#pump();
  }

  #watched(name: string): Watched {
    const known = this.#nodes.get(name);
    if (known !== undefined) return known;
    const watched: Watched = {
      ...{ dueMs: 0, askedMs: Number.NEGATIVE_INFINITY },
      ...{ isAsked: false, hasAnswered: false, missing: [], problems: [] },
    };
    this.#nodes.set(name, watched);
    return watched;
  }

  /** Asks the nodes that are due, and wakes when the next one is. */
  #pump(): void {
    if (this.#stop.signal.aborted) return;
    clearTimeout(this.#waking);
    const nowMs = performance.now();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [name, watched] of this.#nodes) {
      if (watched.isAsked) continue;
      if (watched.dueMs <= nowMs && this.#running < maxAtOnce) void this.#ask(name, watched);
      else if (watched.dueMs > nowMs) nextMs = Math.min(nextMs, watched.dueMs);
    }
    this.#saying ??= setTimeout(() => this.#say(), sayMs).unref();
    // The end of a question pumps, too.
    if (Number.isFinite(nextMs)) this.#waking = setTimeout(() => this.#pump(), nextMs - nowMs + 1).unref();
  }

  async #ask(node: string, watched: Watched): Promise<void> {
    this.#running++;
    watched.isAsked = true;
    watched.askedMs = performance.now();
    // Not all in the same second of each minute.
    watched.dueMs = watched.askedMs + refreshMs * (0.8 + 0.4 * Math.random());
    try {
      const { signal } = this.#stop;
      const question = { list: 'all', volume: undefined, node, waitMs, maxBytesEach, signal };
      const answer = await askFleet(this.#fleet, question, anyItem);
      if (this.#nodes.get(node) === watched && !signal.aborted) await this.#show(node, watched, answer);
    } catch {
      // The node is not known any more.
    } finally {
      watched.isAsked = false;
      watched.hasAnswered = true;
      this.#running--;
      this.#pump();
    }
  }

  async #show(node: string, watched: Watched, answer: FleetAnswer<z.infer<typeof anyItem>>): Promise<void> {
    watched.missing = answer.missing;
    watched.problems = answer.problems;
    // The earlier items stay: they are more than nothing.
    if (answer.missing.some(({ reason }) => reason !== 'cut')) return;
    const items = answer.items.map(({ item }) => item);
    const isWhole = showItems(this.board, node, items);
    if (items.some(({ moves: move }) => move?.state === 'running')) {
      watched.dueMs = Math.min(watched.dueMs, watched.askedMs + movingRefreshMs);
    }
    if (!isWhole) {
      const message = 'it has more than fits into one view of the fleet: look on the node, or with --node';
      watched.missing = [...watched.missing, { node, reason: 'cut', message }];
    }
    // Links and calls are served between two nodes.
    await setImmediate();
  }

  /** Says which nodes have not answered, and why. */
  #say(): void {
    clearTimeout(this.#saying);
    this.#saying = undefined;
    const { state } = this.#fleet;
    const nodes = [...this.#nodes.entries()].sort(([a], [b]) => (a < b ? -1 : 1));
    const unknown = state.areNodesKnown
      ? []
      : [{ node: '', message: 'Kubernetes has not said yet which nodes have the driver' }];
    this.board.lacks({
      waiting: nodes.filter(([, { hasAnswered }]) => !hasAnswered).length,
      problems: [...unknown, ...nodes.flatMap(([, { problems }]) => problems)],
      missing: nodes.flatMap(([, { missing }]) => missing),
    });
  }
}
