import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { Pools } from '../../pool/pools.ts';
import { SharedRun } from '../../volume/flow/shared-run.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';

type Change = Draft<wire.InventoryChange>;
type Entry = Draft<wire.InventoryEntry>;

/** Entries in one message: about 300 KiB with names of the maximum length. */
const entriesEach = 500;

/** Reports over one link what the node has: everything at first, then the changes. */
export class InventoryTeller {
  readonly #pools: Pick<Pools, 'known' | 'statuses' | 'ready'>;
  readonly #send: (change: Change) => void;
  /** The reported entries, by id. */
  #told = new Map<string, Told>();
  #poolsTold = '';
  #revision = 0n;
  #isComplete = false;
  /** One after the other, as each reports the difference to the one before. */
  readonly #telling = new SharedRun(() => this.#tellNow());

  constructor(pools: Pick<Pools, 'known' | 'statuses' | 'ready'>, send: (change: Change) => void) {
    this.#pools = pools;
    this.#send = send;
  }

  /** Resolves when the state at the time of the call has been reported. */
  tell(): Promise<void> {
    return this.#telling.run();
  }

  async #tellNow(): Promise<void> {
    // Read before the lists: pools that open meanwhile are not in them.
    const isWhole = this.#pools.ready();
    const pools = this.#changedPools();
    const records = await this.#records();
    const put: Entry[] = [];
    const now = new Map<string, Told>();
    for (const [id, { pool, record }] of records) {
      const before = this.#told.get(id);
      // Most records are unchanged, and there may be thousands of them.
      if (before?.record === record && before.pool === pool) {
        now.set(id, before);
        continue;
      }
      const entry = entryOf(id, record, pool);
      const text = JSON.stringify(entry);
      now.set(id, { record, pool, text });
      if (before?.text !== text) put.push(entry);
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

  /**
   * The records of all pools whose records are known. Groups are reported through their members, which have their name.
   */
  async #records(): Promise<ReadonlyMap<string, Pick<Told, 'pool' | 'record'>>> {
    const records = new Map<string, Pick<Told, 'pool' | 'record'>>();
    for (const pool of this.#pools.known()) {
      for (const record of await pool.list(undefined, undefined)) records.set(record.id, { pool: pool.name, record });
      for (const record of await pool.listSnapshots(undefined, undefined, undefined, true)) {
        if (record.isLeft === true && records.has(record.id)) continue;
        records.set(record.id, { pool: pool.name, record });
        if (record.groupId !== undefined) records.set(record.groupId, { pool: pool.name, record });
      }
    }
    return records;
  }
}

type ToldRecord = Pick<VolumeRecord, 'adopted' | 'id' | 'name'> | SnapshotRecord;

/** The record that an entry was made from, and the entry as text. */
interface Told {
  readonly record: ToldRecord;
  readonly pool: string;
  readonly text: string;
}

function entryOf(id: string, record: ToldRecord, pool: string): Entry {
  const { name } = record;
  if (!('sourceId' in record)) return { kind: 'VOLUME', id, name, pool, adopted: record.adopted !== undefined };
  const { groupId, sourceId } = record;
  if (id === groupId) return { kind: 'GROUP', id, name, pool };
  return { kind: 'SNAPSHOT', id, name, pool, source_id: sourceId, group_id: groupId ?? '' };
}
