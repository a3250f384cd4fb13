import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { Pools } from '../../pool/pools.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';

type Change = Draft<wire.InventoryChange>;
type Entry = Draft<wire.InventoryEntry>;

/** So many entries in one message: some 300 KiB with names as long as they may be. */
const entriesEach = 500;

/** Tells over one link what the node has: all of it, then what has changed since. */
export class InventoryTeller {
  readonly #pools: Pick<Pools, 'known' | 'statuses' | 'ready'>;
  readonly #send: (change: Change) => void;
  /** What was told, each entry as text, by its id. */
  #told = new Map<string, string>();
  #poolsTold = '';
  #revision = 0n;
  #isComplete = false;
  #turn: Promise<void> = Promise.resolve();

  constructor(pools: Pick<Pools, 'known' | 'statuses' | 'ready'>, send: (change: Change) => void) {
    this.#pools = pools;
    this.#send = send;
  }

  /** Resolves when all that was so when this was called has been told. */
  tell(): Promise<void> {
    // One after the other, for each tells the difference to the one before.
    const turn = this.#turn.then(() => this.#tellNow());
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async #tellNow(): Promise<void> {
    // Asked before the lists: what opens meanwhile is not in them.
    const isWhole = this.#pools.ready();
    const pools = this.#changedPools();
    const entries = await this.#entries();
    const put: Entry[] = [];
    const now = new Map<string, string>();
    for (const entry of entries) {
      const id = entry.id ?? '';
      const text = JSON.stringify(entry);
      now.set(id, text);
      if (this.#told.get(id) !== text) put.push(entry);
    }
    const gone = [...this.#told.keys()].filter((id) => !now.has(id));
    this.#told = now;
    const isFirst = this.#revision === 0n;
    const completes = isWhole && !this.#isComplete;
    if (!isFirst && !completes && put.length + gone.length + pools.length === 0) return;
    this.#isComplete ||= isWhole;
    for (let first = 0; first === 0 || first < Math.max(put.length, gone.length); first += entriesEach) {
      const isLast = first + entriesEach >= Math.max(put.length, gone.length);
      this.#revision++;
      this.#send({
        revision: this.#revision,
        starts: isFirst && first === 0,
        complete: isLast && this.#isComplete,
        put: put.slice(first, first + entriesEach),
        gone: gone.slice(first, first + entriesEach),
        pools: first === 0 ? pools : [],
      });
    }
  }

  #changedPools(): Draft<wire.PoolTold>[] {
    const sights = this.#pools.statuses().map(({ name, reason = '', state }) => ({ name, state, reason }));
    const text = JSON.stringify(sights);
    if (text === this.#poolsTold) return [];
    this.#poolsTold = text;
    return sights;
  }

  /** Of the pools whose records are known. Groups are told by their members, which have their name. */
  async #entries(): Promise<Entry[]> {
    const entries = new Map<string, Entry>();
    for (const pool of this.#pools.known()) {
      for (const { adopted, id, name } of await pool.list(undefined, undefined)) {
        entries.set(id, { kind: 'VOLUME', id, name, pool: pool.name, adopted: adopted !== undefined });
      }
      for (const record of await pool.listSnapshots(undefined, undefined)) {
        for (const entry of snapshotEntries(record, pool.name)) entries.set(entry.id ?? '', entry);
      }
    }
    return [...entries.values()];
  }
}

function snapshotEntries({ groupId, id, name, sourceId }: SnapshotRecord, pool: string): Entry[] {
  const own: Entry = { kind: 'SNAPSHOT', id, name, pool, source_id: sourceId, group_id: groupId ?? '' };
  return groupId === undefined ? [own] : [own, { kind: 'GROUP', id: groupId, name, pool }];
}
