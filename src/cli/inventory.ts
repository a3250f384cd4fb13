import type { Config, PoolConfig } from '../config.ts';
import type { Lane } from '../kernel/lane.ts';
import { statusOf } from '../kernel/path.ts';
import { hostBallastPath } from '../pool/image/ballast.ts';
import { Layout } from '../pool/image/layout.ts';
import { RecordIndex } from '../pool/image/record-index.ts';
import { type Damaged, readGroups, readSnapshots, readVolumes } from '../pool/image/records.ts';
import { SnapshotIndex } from '../pool/image/snapshot-index.ts';
import { SpaceLedger } from '../pool/image/space-ledger.ts';
import { readTrash } from '../pool/image/trash-entry.ts';
import type { PoolCapacity } from '../pool/pool.ts';
import { type GroupId, parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import type { SnapshotRecord } from '../volume/snapshot-record.ts';
import { explain } from './explain.ts';
import { findHome, type HomeSight, placeOf } from './home.ts';

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
  readonly snapshots: readonly SnapshotRecord[];
  readonly damaged: readonly Damaged<VolumeId | SnapshotId | GroupId>[];
  readonly capacity: PoolCapacity;
}

/** @param quarantined why a pool's disk is not to be looked at: that could take for ever */
export function readPools(
  lane: Lane,
  config: Config,
  quarantined: ReadonlyMap<string, string> = new Map(),
): Promise<PoolSight[]> {
  return Promise.all(
    config.pools.map(async (pool): Promise<PoolSight> => {
      const advice = quarantined.get(pool.name);
      if (advice === undefined) return readPool(lane, config.dataDirectory, pool);
      const place = placeOf(config.dataDirectory, pool);
      return { config: pool, home: { ...place, state: 'quarantined', advice, holders: [] }, contents: undefined };
    }),
  );
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
  const backingFile = home.type === 'file' ? home.path : undefined;
  const { records, damaged } = await readVolumes(lane, layout);
  const snapshots = await readSnapshots(lane, layout);
  const groups = await readGroups(lane, layout);
  const damagedCuts = [...snapshots.damaged, ...groups.damaged];
  const snapshotIndex = new SnapshotIndex(snapshots.records, groups.records, damagedCuts);
  const trash = await readTrash(lane, layout);
  const space = new SpaceLedger({
    ...config,
    poolName: config.name,
    lane,
    layout,
    index: new RecordIndex(records, damaged),
    snapshotIndex,
    trash: { entries: () => trash.kept, purgeOldest: async () => false },
    ballast: {
      bytes: await allocatedBytes(lane, layout.ballast),
      hostBytes: backingFile === undefined ? 0n : await allocatedBytes(lane, hostBallastPath(backingFile)),
    },
    backingFile,
  });
  return {
    layout,
    records: records.toSorted(byAge),
    // A snapshot without the group that it names was never cut.
    snapshots: snapshots.records.filter((record) => snapshotIndex.hasItsGroup(record)).toSorted(byAge),
    damaged: [...damaged, ...damagedCuts],
    capacity: await space.measure(),
  };
}

/** Of a file that may not be there. */
async function allocatedBytes(lane: Lane, path: string): Promise<bigint> {
  return (await statusOf(lane, path).catch(() => undefined))?.allocatedBytes ?? 0n;
}

/** Why a list of what the pool holds may lack something. A pool that was never made lacks nothing. */
export function problemsOf({ config, home, contents }: PoolSight): string[] {
  if (contents === undefined) return home.state === 'absent' ? [] : [`pool ${config.name}: ${home.advice}`];
  return contents.damaged.map(({ id, reason }) => `${describeId(id)} of pool ${config.name} is damaged: ${reason}`);
}

/** `volume vol-…`, `snapshot snap-…` or `group group-…`. */
export function describeId(id: VolumeId | SnapshotId | GroupId): string {
  if (parseVolumeId(id) !== undefined) return `volume ${id}`;
  return parseSnapshotId(id) === undefined ? `group ${id}` : `snapshot ${id}`;
}

/** Oldest first, as a list grows at its end. */
function byAge(a: VolumeRecord | SnapshotRecord, b: VolumeRecord | SnapshotRecord): number {
  return a.createdAt.localeCompare(b.createdAt) || a.id.localeCompare(b.id);
}
