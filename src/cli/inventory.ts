import type { Config, PoolConfig } from '../config.ts';
import type { Lane } from '../kernel/lane.ts';
import { Layout } from '../pool/image/layout.ts';
import { RecordIndex } from '../pool/image/record-index.ts';
import { type Damaged, readSnapshots, readVolumes } from '../pool/image/records.ts';
import { SnapshotIndex } from '../pool/image/snapshot-index.ts';
import { SpaceLedger } from '../pool/image/space-ledger.ts';
import { readTrash } from '../pool/image/trash-entry.ts';
import type { PoolCapacity } from '../pool/pool.ts';
import type { VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { explain } from './explain.ts';
import { findHome, type HomeSight } from './home.ts';

/** A configured pool, read from its own disk: no driver needs to run, nothing is changed. */
export interface PoolSight {
  readonly config: PoolConfig;
  readonly home: HomeSight;
  /** undefined if it is not open. */
  readonly contents: PoolContents | undefined;
}

export interface PoolContents {
  readonly layout: Layout;
  readonly records: readonly VolumeRecord[];
  readonly damaged: readonly Damaged<VolumeId>[];
  readonly capacity: PoolCapacity;
}

export function readPools(lane: Lane, config: Config): Promise<PoolSight[]> {
  return Promise.all(config.pools.map((pool) => readPool(lane, config.dataDirectory, pool)));
}

async function readPool(lane: Lane, dataDirectory: string, config: PoolConfig): Promise<PoolSight> {
  const home = await findHome(lane, dataDirectory, config);
  if (home.state !== 'open') return { config, home, contents: undefined };
  try {
    return { config, home, contents: await readContents(lane, config, home) };
  } catch (error) {
    return { config, home: { ...home, state: 'broken', advice: explain(error) }, contents: undefined };
  }
}

async function readContents(lane: Lane, config: PoolConfig, home: HomeSight): Promise<PoolContents> {
  const layout = new Layout(home.root);
  const { records, damaged } = await readVolumes(lane, layout);
  const snapshots = await readSnapshots(lane, layout);
  const trash = await readTrash(lane, layout);
  const space = new SpaceLedger({
    ...config,
    poolName: config.name,
    lane,
    layout,
    index: new RecordIndex(records, damaged),
    snapshotIndex: new SnapshotIndex(snapshots.records, [], []),
    trash: { entries: () => trash.kept, purgeOldest: async () => false },
    backingFile: home.type === 'file' ? home.path : undefined,
  });
  return { layout, records: records.toSorted(byAge), damaged, capacity: await space.measure() };
}

/** Oldest first, as a list grows at its end. */
function byAge(a: VolumeRecord, b: VolumeRecord): number {
  return a.createdAt.localeCompare(b.createdAt) || a.id.localeCompare(b.id);
}
