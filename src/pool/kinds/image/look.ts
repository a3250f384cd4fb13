import { access, constants } from 'node:fs/promises';
import { type Attachments, attachmentsOf } from '../../../cli/attachments.ts';
import type { DriverWord } from '../../../cli/driver-word.ts';
import { explain } from '../../../cli/explain.ts';
import { DiskSilent, silentAfterMs, silentSight, unlessSilent } from '../../../cli/silence.ts';
import type { Config, PoolConfig } from '../../../config/config.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { seesReflink } from '../../../kernel/file/filesystem.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { type GroupId, parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { SnapshotRecord } from '../../../volume/snapshot-record.ts';
import { RecordIndex } from '../../catalog/record-index.ts';
import { SnapshotIndex } from '../../catalog/snapshot-index.ts';
import { isOriginal, readTrash } from '../../catalog/trash-entry.ts';
import { absent, configuredPlace, findLocation, type LocationSight } from '../../location/find.ts';
import { poolsDirectory } from '../../location/location.ts';
import { NotReadable, readPrivately } from '../../location/private-mount.ts';
import { hostReservePath } from '../../location/reserved-space.ts';
import { explainTrouble } from '../../location/trouble.ts';
import type { DiskUsage, PoolCapacity } from '../../pool.ts';
import { Layout } from '../../records/layout.ts';
import { readPoolFile } from '../../records/pool-file.ts';
import { type Damaged, readGroups, readSnapshots, readVolumes } from '../../records/records.ts';
import { SpaceLedger } from '../../space/space-ledger.ts';

/**
 * What a command needs beside the records, as it takes time: how full the pool is, or where its volumes are in use.
 */

export type Wanted = 'records' | 'capacity' | 'attachments';

/** A configured pool, read from its own disk: no driver needs to run, nothing is changed. */
export interface PoolSight {
  readonly config: PoolConfig;
  readonly location: LocationSight;
  /** undefined if it is not open. */
  readonly contents: PoolContents | undefined;
}

export interface PoolContents {
  readonly records: readonly VolumeRecord[];
  readonly snapshots: readonly SnapshotRecord[];
  readonly damaged: readonly Damaged<VolumeId | SnapshotId | GroupId>[];
  /** If wanted. */
  readonly capacity: PoolCapacity | undefined;
  readonly disk: DiskUsage | undefined;
  /** Whether its files can share blocks, if that can be told without writing. */
  readonly canShareBlocks: boolean | undefined;
  /** If wanted: of each volume. */
  readonly attachments: ReadonlyMap<VolumeId, Attachments>;
}

export interface LookOptions {
  readonly wanted: Wanted;
  /** What the running driver says of the pool, if it cannot use it. */
  readonly word: DriverWord | undefined;
}

/** How many of a pool's files are read at a time. */
export const placesForPool = 4;

/** Looks at one pool, as long as its disk answers. */
export async function lookAtPool(config: Config, pool: PoolConfig, options: LookOptions): Promise<PoolSight> {
  const { word } = options;
  // It is known what its disk is like, and to ask it could take for ever.
  if (word?.state === 'quarantined') {
    const place = configuredPlace(config.dataDirectory, pool);
    const location = { ...place, source: place.path, state: 'quarantined', advice: word.reason, holders: [] } as const;
    return { config: pool, location, contents: undefined };
  }
  try {
    const sight = await unlessSilent(pool, placesForPool, (queue) => readPool(queue, config, pool, options.wanted));
    if (word === undefined) return sight;
    return { ...sight, location: { ...sight.location, state: 'broken', advice: word.reason } };
  } catch (error) {
    if (!(error instanceof DiskSilent)) throw error;
    return silentSight(pool, config, silentAfterMs(pool));
  }
}

async function readPool(queue: DiskQueue, config: Config, pool: PoolConfig, wanted: Wanted): Promise<PoolSight> {
  const location = await findLocation(queue, config.dataDirectory, pool);
  let readFrom = location.root;
  const read = (root: string) => {
    readFrom = root;
    return readRoot(queue, config, { config: pool, location: { ...location, root }, wanted });
  };
  try {
    switch (location.state) {
      case 'open':
        return await read(location.root);
      case 'closed':
        return await readClosed(queue, config, { config: pool, location }, read);
      default:
        return { config: pool, location, contents: undefined };
    }
  } catch (error) {
    const state = error instanceof NotReadable ? location.state : 'broken';
    const advice = withoutName(explain(error).replaceAll(readFrom, location.root), pool.name);
    return { config: pool, location: { ...location, state, advice }, contents: undefined };
  }
}

async function readClosed(
  queue: DiskQueue,
  { dataDirectory }: Config,
  { config, location }: Omit<PoolSight, 'contents'>,
  read: (root: string) => Promise<PoolSight>,
): Promise<PoolSight> {
  const type = location.type === 'device' ? 'device' : 'file';
  const markerDirectory = poolsDirectory(dataDirectory);
  const closed = { poolName: config.name, source: location.source, type, markerDirectory } as const;
  const sight = await readPrivately(queue, closed, read);
  if (sight === undefined) return { config, location: { ...location, ...absent(location.path) }, contents: undefined };
  return asMounted(sight, location);
}

/** What was read from a mount that nobody else sees, with the paths that it has where the driver mounts it. */
function asMounted({ config, location, contents }: PoolSight, { root, type, path }: LocationSight): PoolSight {
  const isRead = location.state === 'closed';
  const advice = isRead
    ? `${type} ${path} is not mounted here: what it holds was read without that, and nothing written. A driver mounts it while it runs (holdfast serve).`
    : location.advice;
  const damaged = contents?.damaged.map(({ id, reason }) => ({ id, reason: reason.replaceAll(location.root, root) }));
  return {
    config,
    location: { ...location, root, advice },
    contents: contents && { ...contents, damaged: damaged ?? [] },
  };
}

async function readRoot(
  queue: DiskQueue,
  { dataDirectory, notesDirectory }: Config,
  {
    config,
    location,
    wanted,
  }: { readonly config: PoolConfig; readonly location: LocationSight; readonly wanted: Wanted },
): Promise<PoolSight> {
  const layout = new Layout(location.root);
  const poolFile = await readPoolFile({ dataDirectory, queue, layout, poolName: config.name });
  if (poolFile === undefined)
    return { config, location: { ...location, ...absent(location.path) }, contents: undefined };
  const contents = await readContents(queue, config, location, wanted);
  const ids = wanted === 'attachments' ? contents.records.map(({ id }) => id) : [];
  const attachments = await attachmentsOf(queue, { ids, layout, notesDirectory });
  const advice = location.state === 'open' ? await whyNotWritable(queue, config.name, location.root) : undefined;
  return {
    config,
    location: advice === undefined ? location : { ...location, state: 'broken', advice },
    contents: { ...contents, attachments },
  };
}

/** Its driver has to write; who only looks can read it all the same. */
async function whyNotWritable(queue: DiskQueue, poolName: string, root: string): Promise<string | undefined> {
  try {
    await queue.run(() => access(root, constants.W_OK));
    return undefined;
  } catch (error) {
    if (!isErrno(error, 'EROFS')) throw error;
    return withoutName(explain(await explainTrouble(error, { queue, poolName, path: root })), poolName);
  }
}

/** Who prints it puts the pool's name before it. */
function withoutName(text: string, poolName: string): string {
  return text.replace(`pool ${poolName}: `, '');
}

async function readContents(
  queue: DiskQueue,
  config: PoolConfig,
  location: LocationSight,
  wanted: Wanted,
): Promise<Omit<PoolContents, 'attachments'>> {
  const layout = new Layout(location.root);
  const backingFile = location.type === 'file' ? location.path : undefined;
  const { records, damaged } = await readVolumes(queue, layout);
  const snapshots = await readSnapshots(queue, layout);
  const groups = await readGroups(queue, layout);
  const damagedCuts = [...snapshots.damaged, ...groups.damaged];
  const snapshotIndex = new SnapshotIndex(snapshots.records, groups.records, damagedCuts);
  const trash = await readTrash(queue, layout);
  const canShareBlocks = await seesReflink(queue, layout.root);
  const space = new SpaceLedger({
    ...config,
    poolName: config.name,
    queue,
    layout,
    index: new RecordIndex(records, damaged),
    snapshotIndex,
    trash: {
      entries: () => trash.kept,
      expendable: () => trash.kept.filter((entry) => !isOriginal(entry)),
      purgeEarly: async () => undefined,
      drained: async () => undefined,
    },
    devices: { countByVolume: async () => new Map() },
    snapshots: canShareBlocks === false ? 'copy' : 'reflink',
    reserve: {
      bytes: await allocatedBytes(queue, layout.reserve),
      hostBytes: backingFile === undefined ? 0n : await allocatedBytes(queue, hostReservePath(backingFile)),
    },
    backingFile,
  });
  const survey = wanted === 'capacity' ? await space.survey() : undefined;
  return {
    records: records.toSorted(byAge),
    // A snapshot without the group that it names was never cut.
    snapshots: snapshots.records.filter((record) => snapshotIndex.hasItsGroup(record)).toSorted(byAge),
    damaged: [...damaged, ...damagedCuts],
    capacity: survey?.capacity,
    disk: survey?.disk,
    canShareBlocks,
  };
}

/** Of a file that may not be there. */
async function allocatedBytes(queue: DiskQueue, path: string): Promise<bigint> {
  return (await statusOf(queue, path).catch(() => undefined))?.allocatedBytes ?? 0n;
}

/** Why a list of what the pool holds may lack something. A pool that was never made lacks nothing. */
export function problemsOf({ config, location, contents }: PoolSight): string[] {
  const isWhole = location.state === 'absent' || contents !== undefined;
  const damaged = contents?.damaged ?? [];
  return [
    ...(isWhole ? [] : [`pool ${config.name}: ${location.advice}`]),
    ...damaged.map(({ id, reason }) => `${describeId(id)} of pool ${config.name} is damaged: ${reason}`),
  ];
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
