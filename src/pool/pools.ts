import type { DeviceNumber } from '../kernel/device.ts';
import { InvalidArgument, NotFound, Unavailable } from '../volume/errors.ts';
import type { GroupId, SnapshotId, VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import type { GroupRecord, SnapshotRecord } from '../volume/snapshot-record.ts';
import type { Pool } from './pool.ts';

/** How to open a configured pool; which kind it is, only the composition root knows. */
export type PoolOpener = () => Promise<Pool>;

export const poolStates = ['opening', 'open', 'failed'] as const;

type PoolState =
  | { readonly state: 'opening' }
  | { readonly state: 'open'; readonly pool: Pool }
  | { readonly state: 'failed'; readonly reason: string };

/** What there is to say of a configured pool. */
export interface PoolSight {
  readonly name: string;
  readonly state: (typeof poolStates)[number];
  /** Why it could not be opened. */
  readonly reason: string | undefined;
}

/** A volume, snapshot or group, and the pool that has it. */
export interface Found<Kind> {
  readonly pool: Pool;
  readonly record: Kind;
}

export type FoundVolume = Found<VolumeRecord>;

/** The configured pools of this node. Each opens by itself: a sick one is reported and disturbs no other. */
export class Pools {
  readonly #states = new Map<string, PoolState>();
  readonly #openers: ReadonlyMap<string, PoolOpener>;
  readonly #defaultName: string;

  constructor(openers: ReadonlyMap<string, PoolOpener>, defaultName: string) {
    this.#openers = openers;
    this.#defaultName = defaultName;
    for (const name of openers.keys()) this.#states.set(name, { state: 'opening' });
  }

  /**
   * Opens all pools at once; resolves when each is open or has failed.
   * @returns why the failed ones failed
   */
  async open(): Promise<{ readonly name: string; readonly error: unknown }[]> {
    const failures: { name: string; error: unknown }[] = [];
    await Promise.all(
      Array.from(this.#openers, async ([name, opener]) => {
        try {
          this.#states.set(name, { state: 'open', pool: await opener() });
        } catch (error) {
          this.#states.set(name, { state: 'failed', reason: error instanceof Error ? error.message : String(error) });
          failures.push({ name, error });
        }
      }),
    );
    return failures;
  }

  /** Whether every pool is open or has failed. */
  ready(): boolean {
    return [...this.#states.values()].every(({ state }) => state !== 'opening');
  }

  /** Why the driver is not healthy: the pools that failed, if no pool is left that works (I08). */
  problems(): string[] {
    if (!this.ready() || this.all().length > 0) return [];
    return [...this.#states.values()].flatMap((state) => (state.state === 'failed' ? [state.reason] : []));
  }

  sights(): PoolSight[] {
    return Array.from(this.#states, ([name, state]) => ({
      name,
      state: state.state,
      reason: state.state === 'failed' ? state.reason : undefined,
    }));
  }

  names(): string[] {
    return [...this.#states.keys()];
  }

  get defaultName(): string {
    return this.#defaultName;
  }

  /** The pools that are open. */
  all(): Pool[] {
    return [...this.#states.values()].flatMap((state) => (state.state === 'open' ? [state.pool] : []));
  }

  /** @throws InvalidArgument if there is no such pool, Unavailable while it cannot be used */
  get(name: string): Pool {
    const state = this.#states.get(name);
    if (state === undefined) {
      throw new InvalidArgument(`There is no pool '${name}' on this node. Its pools: ${this.names().join(', ')}.`);
    }
    if (state.state === 'opening') throw new Unavailable(`pool ${name} is still being opened; try again.`);
    if (state.state === 'failed') throw new Unavailable(`pool ${name} could not be opened: ${state.reason}`);
    return state.pool;
  }

  /**
   * A volume with a life of its own: of an ephemeral one only its publish and unpublish know.
   * @throws Unavailable if no open pool has it but another one, not open, might: "not found" could be a lie (DV08)
   */
  find(id: VolumeId): Promise<FoundVolume | undefined> {
    return this.#search(`volume ${id}`, async (pool) => {
      const record = await pool.find(id);
      return record?.ephemeral === undefined ? record : undefined;
    });
  }

  /** An ephemeral volume of the pools that are open: one broken disk does not stop those on the others. */
  async findEphemeral(id: VolumeId): Promise<FoundVolume | undefined> {
    for (const pool of this.all()) {
      const record = await pool.find(id);
      if (record?.ephemeral !== undefined) return { pool, record };
    }
    return undefined;
  }

  /** Like `find`, for calls that need the volume. @throws NotFound, Unavailable */
  async require(id: VolumeId): Promise<FoundVolume> {
    const found = await this.find(id);
    if (found === undefined) throw new NotFound(`There is no volume ${id} on this node.`);
    return found;
  }

  /** As `find`, for snapshots. */
  findSnapshot(id: SnapshotId): Promise<Found<SnapshotRecord> | undefined> {
    return this.#search(`snapshot ${id}`, (pool) => pool.findSnapshot(id));
  }

  /** As `find`, for groups of snapshots. */
  findGroup(id: GroupId): Promise<Found<GroupRecord> | undefined> {
    return this.#search(`group ${id}`, (pool) => pool.findGroup(id));
  }

  async #search<Kind>(
    what: string,
    lookUp: (pool: Pool) => Promise<Kind | undefined>,
  ): Promise<Found<Kind> | undefined> {
    for (const pool of this.all()) {
      const record = await lookUp(pool);
      if (record !== undefined) return { pool, record };
    }
    const closed = this.names().find((name) => this.#states.get(name)?.state !== 'open');
    if (closed !== undefined) {
      throw new Unavailable(`${what} is in no open pool, and pool ${closed} is not open; try again later.`);
    }
    return undefined;
  }

  /** Whose device this is, also when the volume's record is gone. */
  async volumeOfDevice(device: DeviceNumber): Promise<{ readonly pool: Pool; readonly id: VolumeId } | undefined> {
    for (const pool of this.all()) {
      const id = await pool.volumeOfDevice(device);
      if (id !== undefined) return { pool, id };
    }
    return undefined;
  }

  async close(): Promise<void> {
    await Promise.all(this.all().map((pool) => pool.close()));
  }
}
