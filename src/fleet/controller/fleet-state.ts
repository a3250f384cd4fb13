import { isAllTold } from '../routing/missing.ts';
import type { NamedVolume, StrayView } from '../routing/strays.ts';
import type { FleetView, Named, NodeSight, Owner, RecordedNode } from '../routing/view.ts';
import { derivesFrom, type Entry, NodeInventory } from './inventory.ts';

/** The name that a pool has where the configuration names none. */
const defaultPoolName = 'default';
/** Names of pools that are tried with each forgotten node: each costs a digest. */
const maxPoolNames = 100;

/** The time for which a record counts as it was seen: it may be changed. */
const recordedMs = 30_000;

/** Where an object is by records that it does not hold. */
interface RecordedNodes {
  readonly nodes: readonly RecordedNode[];
  /** The nodes that reported the object then. */
  readonly owners: string;
  readonly seenMs: number;
}

/** The known facts about one node. */
interface NodeState {
  readonly name: string;
  /** From the last link that reported all; while another link is reporting, the earlier report counts. */
  inventory: NodeInventory;
  telling: NodeInventory | undefined;
  isLinked: boolean;
  sinceMs: number;
  /** Volumes that were taken back from lost nodes, of which this node has no earlier copy. */
  readonly believed: Set<string>;
}

/** The state of all nodes, as Kubernetes and the nodes report it. All of it can be requested again. */
export class FleetState implements FleetView, StrayView {
  readonly #states = new Map<string, NodeState>();
  readonly #now: () => number;
  /** Nodes that Kubernetes lists; undefined: not known yet. */
  #known: ReadonlySet<string> | undefined;
  /** Without forgotten ones. */
  #expected: ReadonlySet<string> | undefined;
  #forgotten: ReadonlySet<string> = new Set();
  /** Forgotten ones, including those that another replica may still have a link to. */
  #noted: ReadonlySet<string> = new Set();
  #takenBack: ReadonlyMap<string, string> = new Map();
  /** By id, the oldest first. */
  readonly #recorded = new Map<string, RecordedNodes>();
  #appeared: (name: string) => void = () => undefined;
  readonly #watchers = new Set<(name: string) => void>();

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Calls the listener each time that an unknown node becomes known, even if only for a moment. */
  onAppearance(listener: (name: string) => void): void {
    this.#appeared = listener;
  }

  /**
   * Calls the listener with the name of each node that changes: its link, what it reports, or whether it is known.
   * @returns ends it
   */
  watch(listener: (name: string) => void): () => void {
    this.#watchers.add(listener);
    return () => this.#watchers.delete(listener);
  }

  /**
   * Sets the nodes with the driver, from Kubernetes (CSINode). A node that is not listed any more, and has no link, is
   * dropped.
   */
  expect(names: readonly string[]): void {
    this.#known = new Set(names);
    this.#settle();
  }

  /**
   * Sets the nodes that an operator has declared gone. A node with a link stays until the link ends.
   * @param noted includes nodes that may not be gone: they get no new link, and are awaited as before
   */
  forget(names: readonly string[], noted = names): void {
    this.#forgotten = new Set(names);
    this.#noted = new Set(noted);
    this.#settle();
  }

  /** Answers if an operator has declared the node gone, even if it has a link or is still awaited. */
  wasForgotten(name: string): boolean {
    return this.#noted.has(name);
  }

  /** True if it gets no new link: an operator has said that it is gone, whether that counts already or not. */
  isKeptOut(name: string): boolean {
    return this.#noted.has(name) && this.#states.get(name)?.isLinked !== true;
  }

  isForgotten(name: string): boolean {
    return this.#forgotten.has(name) && this.isKeptOut(name);
  }

  /** A node has a link, and will report everything into this inventory. */
  linked(name: string): NodeInventory {
    const state = this.#state(name);
    state.telling = new NodeInventory(name, () => this.#changed(name));
    state.isLinked = true;
    state.believed.clear();
    state.sinceMs = this.#now();
    this.#changed(name);
    return state.telling;
  }

  /** The inventory is complete. */
  told(name: string, inventory: NodeInventory): void {
    const state = this.#states.get(name);
    if (state?.telling !== inventory || !inventory.isComplete) return;
    state.inventory = inventory;
    state.telling = undefined;
    state.sinceMs = this.#now();
    this.#changed(name);
  }

  away(name: string): void {
    const state = this.#states.get(name);
    if (state === undefined) return;
    state.isLinked = false;
    state.telling = undefined;
    state.sinceMs = this.#now();
    this.#settle();
    this.#changed(name);
  }

  get areNodesKnown(): boolean {
    return this.#expected !== undefined;
  }

  get nodes(): readonly NodeSight[] {
    return [...this.#states.values()].map(sightOf).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  node(name: string): NodeSight | undefined {
    const state = this.#states.get(name);
    return state === undefined ? undefined : sightOf(state);
  }

  isAnySilent(besides: string): boolean {
    for (const state of this.#states.values()) {
      if (state.name !== besides && !isAllTold(sightOf(state))) return true;
    }
    return false;
  }

  owners(id: string): readonly Owner[] {
    const found: Owner[] = [];
    for (const [node, state] of this.#states) {
      const entry = state.inventory.entries.get(id);
      if (entry === undefined || this.#isDoubted(id, state)) continue;
      const { isNative, kind } = entry;
      found.push({ node, isNative, isVolume: kind === 'VOLUME' });
    }
    return found;
  }

  recorded(id: string): readonly RecordedNode[] | undefined {
    const noted = this.#recorded.get(id);
    if (noted === undefined || this.#isOld(noted) || noted.owners !== this.#ownersOf(id)) return undefined;
    return noted.nodes;
  }

  /**
   * The PersistentVolumes of the volume name these nodes, or the snapshot has gone to this one. It counts for half a minute, and while the
   * same nodes report the object.
   */
  noteRecorded(id: string, nodes: readonly RecordedNode[]): void {
    this.#recorded.delete(id);
    this.#recorded.set(id, { nodes, owners: this.#ownersOf(id), seenMs: this.#now() });
    for (const [oldest, noted] of this.#recorded) {
      if (!this.#isOld(noted)) return;
      this.#recorded.delete(oldest);
    }
  }

  #isOld({ seenMs }: RecordedNodes): boolean {
    return this.#now() - seenMs >= recordedMs;
  }

  #ownersOf(id: string): string {
    return this.owners(id)
      .map(({ node }) => node)
      .join(' ');
  }

  /**
   * Sets the volumes that were taken back from lost nodes, with their nodes now. On another node such a volume counts only once
   * it is known to be no earlier copy (`believe`).
   */
  takenBack(nodes: ReadonlyMap<string, string>): void {
    this.#takenBack = nodes;
  }

  /** The nodes that have a volume which was taken back, and are not believed yet. */
  doubted(id: string): readonly string[] {
    return [...this.#states.values()]
      .filter((state) => state.inventory.entries.has(id) && this.#isDoubted(id, state))
      .map(({ name }) => name);
  }

  /** True if the node has a volume which was taken back, and is not believed yet. */
  hasDoubted(name: string): boolean {
    const state = this.#states.get(name);
    if (state === undefined) return false;
    return [...this.#takenBack.keys()].some((id) => state.inventory.entries.has(id) && this.#isDoubted(id, state));
  }

  /** The copy of that node is no earlier one, for as long as its link lasts. */
  believe(id: string, node: string): void {
    this.#states.get(node)?.believed.add(id);
  }

  #isDoubted(id: string, { believed, name }: NodeState): boolean {
    const node = this.#takenBack.get(id);
    return node !== undefined && node !== name && !believed.has(id);
  }

  originOf({ node }: Pick<Owner, 'node'>, id: string): string | undefined {
    const entry = this.#states.get(node)?.inventory.entries.get(id);
    if (entry === undefined) return undefined;
    if (entry.isNative) return node;
    // The pool may have had another name there.
    const isFrom = (name: string, pools: Iterable<string>) =>
      [...new Set([entry.pool, defaultPoolName, ...pools])].some((pool) => derivesFrom(name, { ...entry, pool }));
    for (const [name, { inventory }] of this.#states) if (isFrom(name, poolNames(inventory))) return name;
    const all = new Set([...this.#states.values()].flatMap(({ inventory }) => poolNames(inventory)));
    return [...this.#forgotten].find((name) => isFrom(name, [...all].slice(0, maxPoolNames)));
  }

  isTelling(node: string, id: string): boolean {
    return this.#states.get(node)?.telling?.entries.has(id) === true;
  }

  volumesNamed(name: string): readonly Named[] {
    return this.#named('VOLUME', name);
  }

  snapshotsNamed(name: string): readonly Named[] {
    return this.#named('SNAPSHOT', name);
  }

  groupsNamed(name: string): readonly Named[] {
    return this.#named('GROUP', name);
  }

  /** The last report of the node, even if it is away. */
  has(name: string): Pick<NodeInventory, 'entries' | 'pools'> | undefined {
    return this.#states.get(name)?.inventory;
  }

  /** The ids of one kind that each node has and `isWanted` accepts. */
  ids(kind: Entry['kind'], isWanted: (entry: Entry) => boolean = () => true): Map<string, string[]> {
    const found = new Map<string, string[]>();
    for (const [node, { inventory }] of this.#states) {
      const ids: string[] = [];
      for (const entry of inventory.entries.values()) if (entry.kind === kind && isWanted(entry)) ids.push(entry.id);
      if (ids.length > 0) found.set(node, ids);
    }
    return found;
  }

  /**
   * Volumes whose name another node has too, except those that several nodes claim, or that their node did not make.
   */
  get namesakes(): readonly NamedVolume[] {
    const volumes = [...this.#states].flatMap(([node, { inventory }]) =>
      [...inventory.entries.values()]
        .filter(({ kind, isNative }) => kind === 'VOLUME' && isNative)
        .map(({ id, isAdopted, name }) => ({ node, id, name, isAdopted })),
    );
    return [...Map.groupBy(volumes, ({ name }) => name).values()].filter(({ length }) => length > 1).flat();
  }

  /** The volumes that several nodes have which are linked and have reported all, with those nodes. */
  get shared(): ReadonlyMap<string, readonly string[]> {
    const nodes = new Map<string, string[]>();
    for (const [node, state] of this.#states) {
      if (!isAllTold(sightOf(state))) continue;
      for (const { id, kind } of state.inventory.entries.values()) {
        if (kind === 'VOLUME') nodes.set(id, [...(nodes.get(id) ?? []), node]);
      }
    }
    return new Map([...nodes].filter(([, { length }]) => length > 1));
  }

  /** Answers if the volume has a snapshot. */
  isSource(volumeId: string): boolean {
    return this.ids('SNAPSHOT', ({ sourceId }) => sourceId === volumeId).size > 0;
  }

  isGone({ id, node }: Pick<NamedVolume, 'id' | 'node'>): boolean {
    const state = this.#states.get(node);
    return state !== undefined && isAllTold(sightOf(state)) && !state.inventory.entries.has(id);
  }

  #named(kind: Entry['kind'], name: string): Named[] {
    return [...this.#states].flatMap(([node, { inventory }]) =>
      inventory.named(kind, name).map((id) => ({ node, id })),
    );
  }

  #settle(): void {
    if (this.#known === undefined) return;
    this.#expected = new Set([...this.#known].filter((name) => !this.isForgotten(name)));
    for (const name of this.#expected) this.#state(name);
    for (const [name, { isLinked }] of this.#states) {
      if (isLinked || this.#expected.has(name)) continue;
      this.#states.delete(name);
      this.#changed(name);
    }
  }

  #changed(name: string): void {
    for (const listener of this.#watchers) listener(name);
  }

  #state(name: string): NodeState {
    const known = this.#states.get(name);
    if (known !== undefined) return known;
    const state: NodeState = {
      name,
      inventory: new NodeInventory(name),
      telling: undefined,
      isLinked: false,
      sinceMs: this.#now(),
      believed: new Set(),
    };
    this.#states.set(name, state);
    this.#appeared(name);
    this.#changed(name);
    return state;
  }
}

function sightOf({ inventory, isLinked, name, sinceMs, telling }: NodeState): NodeSight {
  const { closedPools, isComplete } = inventory;
  return { name, isLinked, hasTold: telling === undefined && isComplete, closedPools, sinceMs };
}

function poolNames({ pools }: NodeInventory): string[] {
  return pools.map(({ name }) => name);
}
