import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { frozen, leftovers, reconciled, trimmed, wiped } from '../pool/events.ts';
import type { Pool, PoolUsage } from '../pool/pool.ts';
import { type Pools, poolStates } from '../pool/pools.ts';
import { withTimeout } from '../volume/with-timeout.ts';
import { VolumeMetrics } from './volume-metrics.ts';

/** A scrape waits no longer than this for a disk; Prometheus itself gives up after 10 s. */
const patienceMs = 2_000;
const freezeBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];

type PoolGauge = Gauge<'pool'>;

/** What the pools hold. A pool that does not answer is left out, and `holdfast_pool_measured` says so. */
export class PoolMetrics {
  readonly #pools: Pools;
  readonly #volumes: VolumeMetrics;
  readonly #state: Gauge<'pool' | 'state'>;
  readonly #measured: PoolGauge;
  readonly #gauges: readonly { readonly gauge: PoolGauge; readonly of: (usage: PoolUsage) => bigint | number }[];
  readonly #beginEvents: (pool: string) => void;
  /** Pools that have begun to be counted. */
  readonly #begun = new Set<string>();
  /** A question that hangs is asked once: it waits for the disk, and the next scrape waits with it. */
  readonly #asked = new Map<Pool, Promise<PoolUsage>>();

  constructor(registry: Registry, pools: Pools) {
    const registers = [registry];
    const gauge = (name: string, help: string) =>
      new Gauge({ name: `holdfast_pool_${name}`, help, labelNames: ['pool'] as const, registers });
    this.#pools = pools;
    this.#state = new Gauge({
      name: 'holdfast_pool_state',
      help: 'Whether the pool is in this state.',
      labelNames: ['pool', 'state'],
      registers,
    });
    this.#measured = gauge('measured', 'Whether the pool answered this scrape; if not, its other figures are missing.');
    this.#gauges = [
      {
        gauge: gauge('total_bytes', 'What the pool could hold if it were empty.'),
        of: (use) => use.capacity.totalBytes,
      },
      {
        gauge: gauge('provisioned_bytes', 'What is provisioned to existing volumes.'),
        of: (use) => use.capacity.provisionedBytes,
      },
      {
        gauge: gauge('used_bytes', 'What volumes, snapshots and the trash take on disk, each block once.'),
        of: (use) => use.capacity.usedBytes,
      },
      {
        gauge: gauge('snapshot_bytes', 'What only snapshots have: what would be free without them.'),
        of: (use) => use.disk.snapshotBytes,
      },
      { gauge: gauge('disk_bytes', 'How large its disk is.'), of: (use) => use.disk.diskBytes },
      {
        gauge: gauge('disk_free_bytes', 'What is free on its disk, whoever uses that.'),
        of: (use) => use.disk.freeBytes,
      },
      {
        gauge: gauge('metadata_bytes', 'How large the metadata of its thin pool is; 0: it has none.'),
        of: (use) => use.disk.metadata?.totalBytes ?? 0n,
      },
      {
        gauge: gauge('metadata_used_bytes', 'How much of the metadata of its thin pool is used.'),
        of: (use) => use.disk.metadata?.usedBytes ?? 0n,
      },
      {
        gauge: gauge('claimable_bytes', 'What volumes may yet take of what is free.'),
        of: (use) => use.disk.claimableBytes,
      },
      {
        gauge: gauge('available_bytes', 'What can still be provisioned.'),
        of: (use) => use.capacity.availableBytes,
      },
      {
        gauge: gauge('nearly_full', 'Whether its disk is about to run full: then writes to volumes may fail.'),
        of: (use) => Number(use.isNearlyFull),
      },
      {
        gauge: gauge('trash_bytes', 'What deleted volumes take that can be brought back.'),
        of: (use) => use.trash.usedBytes,
      },
      { gauge: gauge('trash_volumes', 'Deleted volumes that can be brought back.'), of: (use) => use.trash.volumes },
      {
        gauge: gauge('wiping_bytes', 'What is still to be wiped of deleted volumes before its place is free.'),
        of: (use) => use.wipingBytes,
      },
      { gauge: gauge('volumes', 'Volumes, inline ones too.'), of: (use) => use.volumes.length },
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

  /** A pool that came later, too. */
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
    // A disk that answers with errors says no more than one that is silent.
    const answer = await withTimeout(
      patienceMs,
      asking.catch(() => undefined),
    );
    return answer === 'late' ? undefined : answer;
  }
}

/** What pools did since the driver started. @returns what shows that a pool has done nothing yet */
function countEvents(registry: Registry): (pool: string) => void {
  const registers = [registry];
  const freezes = new Histogram({
    name: 'holdfast_freeze_duration_seconds',
    help: 'How long writers to mounted volumes were held up by a snapshot or clone.',
    labelNames: ['pool'],
    buckets: freezeBuckets,
    registers,
  });
  const cleaned = new Counter({
    name: 'holdfast_reconciled_total',
    help: 'What a pool found half done when it was opened, and finished or removed.',
    labelNames: ['pool', 'what'],
    registers,
  });
  const trims = new Counter({
    name: 'holdfast_pool_trimmed_bytes_total',
    help: 'What images have given back to the pool because their filesystems were trimmed.',
    labelNames: ['pool'],
    registers,
  });
  const wipes = new Counter({
    name: 'holdfast_pool_wiped_bytes_total',
    help: 'What has been wiped of deleted volumes.',
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
