import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { frozen, leftovers, reconciled, trimmed, wiped } from '../pool/events.ts';
import type { Pool, PoolUsage } from '../pool/pool.ts';
import { type Pools, poolStates } from '../pool/pools.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import { VolumeMetrics } from './volume-metrics.ts';

/** The longest wait of a scrape for a disk; Prometheus itself gives up after 10 s. */
const scrapeTimeoutMs = 2_000;
const freezeBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];

type PoolGauge = Gauge<'pool'>;

/** The usage of the pools. A pool that does not answer is left out, and `holdfast_pool_measured` says so. */
export class PoolMetrics {
  readonly #pools: Pools;
  readonly #volumes: VolumeMetrics;
  readonly #state: Gauge<'pool' | 'state'>;
  readonly #measured: PoolGauge;
  readonly #gauges: readonly { readonly gauge: PoolGauge; readonly of: (usage: PoolUsage) => bigint | number }[];
  readonly #beginEvents: (pool: string) => void;
  /** Pools that are counted already. */
  readonly #begun = new Set<string>();
  /** A query that hangs is sent once: it waits for the disk, and the next scrape waits with it. */
  readonly #asked = new Map<Pool, Promise<PoolUsage>>();

  constructor(registry: Registry, pools: Pools) {
    const registers = [registry];
    const gauge = (name: string, help: string) =>
      new Gauge({ name: `holdfast_pool_${name}`, help, labelNames: ['pool'] as const, registers });
    this.#pools = pools;
    this.#state = new Gauge({
      name: 'holdfast_pool_state',
      help: '1 if the pool is in this state.',
      labelNames: ['pool', 'state'],
      registers,
    });
    this.#measured = gauge('measured', '1 if the pool answered this scrape; if not, its other figures are missing.');
    this.#gauges = [
      {
        gauge: gauge('total_bytes', 'Capacity of the pool if it were empty.'),
        of: (use) => use.capacity.totalBytes,
      },
      {
        gauge: gauge('provisioned_bytes', 'Bytes that are provisioned to existing volumes.'),
        of: (use) => use.capacity.provisionedBytes,
      },
      {
        gauge: gauge('used_bytes', 'Bytes of volumes, snapshots and the trash on disk; each block counts once.'),
        of: (use) => use.capacity.usedBytes,
      },
      {
        gauge: gauge('snapshot_bytes', 'Bytes that only snapshots hold, and that would be free without them.'),
        of: (use) => use.disk.snapshotBytes,
      },
      { gauge: gauge('disk_bytes', 'Size of the disk.'), of: (use) => use.disk.diskBytes },
      {
        gauge: gauge('disk_free_bytes', 'Free bytes on the disk, which other programs may also use.'),
        of: (use) => use.disk.freeBytes,
      },
      {
        gauge: gauge('metadata_bytes', 'Size of the metadata of the thin pool; 0: there is none.'),
        of: (use) => use.disk.metadata?.totalBytes ?? 0n,
      },
      {
        gauge: gauge('metadata_used_bytes', 'Used bytes of the metadata of the thin pool.'),
        of: (use) => use.disk.metadata?.usedBytes ?? 0n,
      },
      {
        gauge: gauge('claimable_bytes', 'Free bytes that volumes may still take.'),
        of: (use) => use.disk.claimableBytes,
      },
      {
        gauge: gauge('available_bytes', 'Bytes that can still be provisioned.'),
        of: (use) => use.capacity.availableBytes,
      },
      {
        gauge: gauge('nearly_full', '1 if the disk is nearly full, and writes to volumes may soon fail.'),
        of: (use) => Number(use.isNearlyFull),
      },
      {
        gauge: gauge('trash_bytes', 'Bytes of deleted volumes that can be restored.'),
        of: (use) => use.trash.usedBytes,
      },
      { gauge: gauge('trash_volumes', 'Deleted volumes that can be restored.'), of: (use) => use.trash.volumes },
      {
        gauge: gauge('wiping_bytes', 'Bytes of deleted volumes that must be wiped before their space is free.'),
        of: (use) => use.wipingBytes,
      },
      { gauge: gauge('volumes', 'Volumes, including inline ones.'), of: (use) => use.volumes.length },
      { gauge: gauge('snapshots', 'Snapshots.'), of: (use) => use.snapshots },
      {
        gauge: gauge('devices', 'Devices and directories of this node that show volumes of the pool.'),
        of: (use) => use.volumes.reduce((sum, { devices }) => sum + devices, 0),
      },
      {
        gauge: gauge('damaged_records', 'Volumes, snapshots and groups whose records cannot be read.'),
        of: (use) => use.damagedRecords,
      },
    ];
    this.#volumes = new VolumeMetrics(registry);
    this.#beginEvents = countEvents(registry);
    this.#countAll();
  }

  async collect(): Promise<void> {
    const answers = await Promise.all(this.#pools.all().map(async (pool) => ({ pool, usage: await this.#ask(pool) })));
    this.#state.reset();
    for (const { name, state } of this.#pools.statuses()) {
      for (const each of poolStates) this.#state.set({ pool: name, state: each }, each === state ? 1 : 0);
    }
    for (const { gauge } of this.#gauges) gauge.reset();
    this.#volumes.reset();
    this.#countAll();
    for (const name of this.#pools.names()) this.#measured.set({ pool: name }, 0);
    for (const { pool, usage } of answers) {
      if (usage === undefined) continue;
      this.#measured.set({ pool: pool.name }, 1);
      for (const { gauge, of } of this.#gauges) gauge.set({ pool: pool.name }, Number(of(usage)));
      this.#volumes.show(pool.name, usage.volumes);
    }
  }

  /** Includes pools that were added later. */
  #countAll(): void {
    for (const name of this.#pools.names().filter((each) => !this.#begun.has(each))) {
      this.#begun.add(name);
      this.#beginEvents(name);
    }
  }

  async #ask(pool: Pool): Promise<PoolUsage | undefined> {
    let asking = this.#asked.get(pool);
    if (asking === undefined) {
      asking = pool.usage().finally(() => this.#asked.delete(pool));
      this.#asked.set(pool, asking);
    }
    // A disk that answers with errors is treated like a silent one.
    const answer = await withTimeout(
      scrapeTimeoutMs,
      asking.catch(() => undefined),
    );
    return answer === 'late' ? undefined : answer;
  }
}

/** Events of pools since the driver started. @returns a function that sets a pool's counters to 0 */
function countEvents(registry: Registry): (pool: string) => void {
  const registers = [registry];
  const freezes = new Histogram({
    name: 'holdfast_freeze_duration_seconds',
    help: 'Time for which a snapshot or clone blocked writes to mounted volumes.',
    labelNames: ['pool'],
    buckets: freezeBuckets,
    registers,
  });
  const cleaned = new Counter({
    name: 'holdfast_reconciled_total',
    help: 'Interrupted work that a pool found when it was opened, and finished or removed.',
    labelNames: ['pool', 'what'],
    registers,
  });
  const trims = new Counter({
    name: 'holdfast_pool_trimmed_bytes_total',
    help: 'Bytes that images returned to the pool because their filesystems were trimmed.',
    labelNames: ['pool'],
    registers,
  });
  const wipes = new Counter({
    name: 'holdfast_pool_wiped_bytes_total',
    help: 'Bytes of deleted volumes that were wiped.',
    labelNames: ['pool'],
    registers,
  });
  trimmed.subscribe(({ bytes, pool }) => trims.inc({ pool }, Number(bytes)));
  wiped.subscribe(({ bytes, pool }) => wipes.inc({ pool }, Number(bytes)));
  frozen.subscribe(({ ms, pool }) => freezes.observe({ pool }, ms / 1000));
  reconciled.subscribe(({ count, pool, what }) => cleaned.inc({ pool, what }, count));
  return (pool) => {
    freezes.zero({ pool });
    for (const counter of [trims, wipes]) counter.inc({ pool }, 0);
    for (const what of leftovers) cleaned.inc({ pool, what }, 0);
  };
}
