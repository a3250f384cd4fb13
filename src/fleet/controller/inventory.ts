import type * as wire from '../../csi/generated/types.ts';
import {
  groupIdFor,
  memberIdFor,
  parseGroupId,
  parseSnapshotId,
  parseVolumeId,
  snapshotIdFor,
  volumeIdFor,
} from '../../volume/id.ts';
import type { NodeSight } from '../routing/view.ts';

/** An object of a node. */
export interface Entry {
  readonly kind: 'VOLUME' | 'SNAPSHOT' | 'GROUP';
  readonly id: string;
  readonly name: string;
  readonly pool: string;
  /** For a snapshot: its source volume. */
  readonly sourceId: string;
  /** An adopted volume, whose data is older than the volume. */
  readonly isAdopted: boolean;
  /** The id derives from the name of the node. */
  readonly isNative: boolean;
}

/** The node reported something impossible: its link is ended, and it reports everything again. */
export class BadInventory extends Error {}

/** Limit of a node's volumes, snapshots and groups; a report of more is an error. */
const maxEntries = 200_000;
/** Names come from users: CSI's have at most 128 bytes, those of adopted volumes include a claim and its namespace. */
const longestNameBytes = 512;
const longestReason = 1_024;
const maxPools = 1_000;
/** Limit for one node together: a replica has a few hundred MiB for all of them. */
const maxBytes = 32 << 20;

/** The report of one node about its objects, over one link. */
export class NodeInventory {
  readonly #node: string;
  readonly #changed: () => void;
  #entries = new Map<string, Entry>();
  #ids = new Map<string, readonly string[]>();
  #pools: readonly wire.PoolTold[] = [];
  #revision = 0n;
  #bytes = 0;
  #isComplete = false;

  /** @param changed called after each change */
  constructor(node: string, changed: () => void = () => undefined) {
    this.#node = node;
    this.#changed = changed;
  }

  get isComplete(): boolean {
    return this.#isComplete;
  }

  get entries(): ReadonlyMap<string, Entry> {
    return this.#entries;
  }

  /** Pools that are not open: the report lacks their objects. */
  get closedPools(): NodeSight['closedPools'] {
    return this.#pools
      .filter(({ state }) => state === 'opening' || state === 'failed')
      .map(({ name, state }) => ({ name, isOpening: state === 'opening' }));
  }

  /** The ids of the objects with this name. */
  named(kind: Entry['kind'], name: string): readonly string[] {
    return this.#ids.get(nameKey(kind, name)) ?? [];
  }

  get pools(): readonly wire.PoolTold[] {
    return this.#pools;
  }

  /** @throws BadInventory */
  apply(change: wire.InventoryChange): void {
    if (change.revision !== this.#revision + 1n) {
      throw new BadInventory(`change ${change.revision} of the inventory came after ${this.#revision}`);
    }
    if (this.#revision === 0n && !change.starts) throw new BadInventory('the inventory does not begin with its start');
    this.#revision = change.revision;
    if (change.starts) {
      this.#entries = new Map();
      this.#ids = new Map();
      this.#bytes = 0;
      this.#isComplete = false;
    }
    for (const id of change.gone) this.#forget(id);
    for (const told of change.put) this.#put(told);
    if (change.pools.length > 0) this.#pools = poolsOf(change);
    if (change.complete) this.#isComplete = true;
    this.#changed();
  }

  #put(told: wire.InventoryEntry): void {
    const { adopted: isAdopted, id, kind, name, pool, source_id: sourceId } = told;
    // An unknown kind from a newer driver: no caller here can ask for it.
    if (typeof kind === 'number' || kind === 'UNKNOWN') return;
    if (!hasShapeOf(kind, id)) throw new BadInventory(`${JSON.stringify(id)} cannot be the id of a ${kind}`);
    requireShort(name);
    requireShort(pool);
    requireShort(sourceId);
    this.#forget(id);
    this.#bytes += sizeOf({ id, name, pool, sourceId });
    if (this.#bytes > maxBytes) throw new BadInventory(`more than ${maxBytes} bytes`);
    const key = nameKey(kind, name);
    this.#ids.set(key, [...(this.#ids.get(key) ?? []), id]);
    const entry = { kind, id, name, pool, sourceId, isAdopted };
    this.#entries.set(id, { ...entry, isNative: derivesFrom(this.#node, entry) });
    if (this.#entries.size > maxEntries) throw new BadInventory(`more than ${maxEntries} entries`);
  }

  #forget(id: string): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    this.#entries.delete(id);
    this.#bytes -= sizeOf(entry);
    const key = nameKey(entry.kind, entry.name);
    const ids = this.#ids.get(key)?.filter((other) => other !== id) ?? [];
    if (ids.length > 0) this.#ids.set(key, ids);
    else this.#ids.delete(key);
  }
}

/** Answers if the id is a digest of the node's name, so that no other node can make it. */
export function derivesFrom(node: string, { id, kind, name, pool, sourceId }: Omit<Entry, 'isNative'>): boolean {
  if (kind === 'VOLUME') return id === volumeIdFor(node, pool, name);
  const groupId = groupIdFor(node, name);
  if (kind === 'GROUP') return id === groupId;
  if (id === snapshotIdFor(node, name)) return true;
  // The members of a group have its name.
  const volumeId = parseVolumeId(sourceId);
  return volumeId !== undefined && id === memberIdFor(groupId, volumeId);
}

function poolsOf({ pools }: wire.InventoryChange): readonly wire.PoolTold[] {
  if (pools.length > maxPools) throw new BadInventory(`more than ${maxPools} pools`);
  return pools.map((pool) => {
    for (const text of [pool.name, pool.kind, pool.state]) requireShort(text);
    // A copy: the rest of the original string would stay in memory with a slice.
    return { ...pool, reason: Buffer.from(pool.reason.slice(0, longestReason)).toString() };
  });
}

function requireShort(text: string): void {
  if (Buffer.byteLength(text) > longestNameBytes)
    throw new BadInventory(`a name of more than ${longestNameBytes} bytes`);
}

function sizeOf({ id, name, pool, sourceId }: Pick<Entry, 'id' | 'name' | 'pool' | 'sourceId'>): number {
  return id.length + name.length + pool.length + sourceId.length;
}

function nameKey(kind: Entry['kind'], name: string): string {
  return `${kind} ${name}`;
}

function hasShapeOf(kind: Entry['kind'], id: string): boolean {
  if (kind === 'VOLUME') return parseVolumeId(id) !== undefined;
  return (kind === 'SNAPSHOT' ? parseSnapshotId(id) : parseGroupId(id)) !== undefined;
}
