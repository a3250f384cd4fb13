import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { DirectorySync } from '../../../kernel/file/file.ts';
import type { FilesystemType } from '../../../volume/filesystem.ts';
import type { Trimming } from '../../../volume/trimming.ts';
import { ImageDeletion } from '../../catalog/deletion.ts';
import type { ImageParts } from '../../catalog/parts.ts';
import { RecordIndex } from '../../catalog/record-index.ts';
import { SnapshotIndex } from '../../catalog/snapshot-index.ts';
import { ImageSnapshots } from '../../catalog/snapshots.ts';
import { Trash } from '../../catalog/trash.ts';
import { Unsettled } from '../../catalog/unsettled.ts';
import { ImageVolumes } from '../../catalog/volumes.ts';
import { type Leftover, reconciled } from '../../events.ts';
import { Freezer } from '../../freeze/freezer.ts';
import { type Location, type OpenLocation, openLocation } from '../../location/location.ts';
import { canReflink } from '../../location/reflink.ts';
import { ReservedInodes } from '../../location/reserved-inodes.ts';
import { ReservedSpace } from '../../location/reserved-space.ts';
import { explainTrouble } from '../../location/trouble.ts';
import type { PoolLog } from '../../log.ts';
import { Layout } from '../../records/layout.ts';
import { openPoolFile } from '../../records/pool-file.ts';
import { readGroups, readSnapshots, readVolumes } from '../../records/records.ts';
import { SpaceLedger } from '../../space/space-ledger.ts';
import { findBlockSizeBytes } from './block-size.ts';
import { changedBlocksIn } from './changed-blocks.ts';
import { ImageDevices } from './devices.ts';
import { ImageMaker } from './image-maker.ts';
import { ImagePool } from './image-pool.ts';

export interface ImagePoolOptions {
  readonly name: string;
  readonly location: Location;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  /** undefined: a share of the filesystem (`defaultReserveBytes`). */
  readonly reserveBytes: bigint | undefined;
  /** 1: never promise more than there is. */
  readonly overcommit: number;
  readonly defaultFilesystem: FilesystemType;
  /** How long deleted volumes can be brought back, unless they say otherwise; 0: not at all. */
  readonly undeleteSeconds: number;
  readonly trimming: Trimming;
  /** How long to wait for another driver to let the pool go. */
  readonly lockTimeoutMs: number;
  /** Once aborted, nobody waits for the lock any more. */
  readonly stopping?: AbortSignal | undefined;
  readonly queue: DiskQueue;
  readonly log: PoolLog;
}

/** mkfs processes at a time; more only makes each of them slower. */
const formatsAtOnce = 8;
const repairsAtOnce = 2;

/**
 * Opens the pool and reconciles it with what a crash or a reboot left: half-made and half-removed volumes go, devices
 * that nobody can see go, everything else is as it was.
 */
export async function openImagePool(options: ImagePoolOptions): Promise<ImagePool> {
  try {
    return await openPool(options);
  } catch (error) {
    const { dataDirectory, location, queue, name } = options;
    throw await explainTrouble(error, {
      queue,
      poolName: name,
      path: 'path' in location ? location.path : dataDirectory,
    });
  }
}

async function openPool(options: ImagePoolOptions): Promise<ImagePool> {
  const { dataDirectory, queue, log, name } = options;
  const openedLocation = await openLocation({ ...options, poolName: name });
  const layout = new Layout(openedLocation.root);
  const syncs = new DirectorySync([layout.volumes, layout.trash]);
  const location: OpenLocation = {
    ...openedLocation,
    abandon: () => {
      void syncs.close();
      openedLocation.abandon();
    },
    close: async () => {
      await syncs.close();
      await openedLocation.close();
    },
  };
  try {
    const poolFile = await openPoolFile({
      queue,
      layout,
      syncs,
      poolName: name,
      dataDirectory,
      blockSizeBytes: () => findBlockSizeBytes(queue, layout.root),
    });
    await openedLocation.grow();
    const index = await readIndex(options, layout);
    const snapshotIndex = await readSnapshotIndex(options, layout);
    const reserve = new ReservedSpace(layout.reserve, {
      host: openedLocation.hostReserve,
      inodes: new ReservedInodes(layout.inodes),
    });
    await reserve.acquire(queue);
    const trash = new Trash(queue, layout, (path, error) =>
      log.error({ pool: name, path, err: error }, 'cannot unlink; the next start tries again'),
    );
    const devices = new ImageDevices(queue, layout);
    const freezer = new Freezer({ queue, log, name });
    const maker = new ImageMaker({
      queue,
      formatQueue: queue.beside('mkfs', formatsAtOnce),
      syncs,
      snapshots: (await reserve.withReserve(queue, () => canReflink(queue, layout.drafts))) ? 'reflink' : 'copy',
      log,
    });
    const space = new SpaceLedger({
      ...options,
      reserve,
      poolName: name,
      layout,
      index,
      snapshotIndex,
      trash,
      devices,
      snapshots: maker.cloning,
      backingFile: openedLocation.backingFile,
    });
    trash.isShared = (path) => space.mayBeShared(path);
    trash.onGone = (path) => space.gone(path);
    const parts = {
      ...{ reserve, name, queue, log, layout, syncs },
      programs: queue.beside('repair', repairsAtOnce),
      ...{ index, snapshotIndex, space, devices, freezer, maker, trash },
      unsettled: new Unsettled({ queue, layout, index, snapshotIndex, syncs, trash }),
      blockSizeBytes: poolFile.blockSizeBytes,
      undeleteSeconds: options.undeleteSeconds,
      changedBlocks: await changedBlocksIn(queue, layout, maker.cloning),
    };
    await reconcile(parts);
    log.info({ pool: name, pool_id: poolFile.id, root: layout.root, volumes: index.size }, 'pool opened');
    return new ImagePool(parts, { ...options, location });
  } catch (error) {
    if (queue.closedFor === undefined) await location.close();
    else location.abandon();
    throw error;
  }
}

async function readIndex({ queue, log, name }: ImagePoolOptions, layout: Layout): Promise<RecordIndex> {
  const { records, damaged } = await readVolumes(queue, layout);
  for (const { id, reason } of damaged) log.error({ pool: name, volume_id: id, reason }, 'a volume record is damaged');
  return new RecordIndex(records, damaged);
}

async function readSnapshotIndex({ queue, log, name }: ImagePoolOptions, layout: Layout): Promise<SnapshotIndex> {
  const snapshots = await readSnapshots(queue, layout);
  const groups = await readGroups(queue, layout);
  const damaged = [...snapshots.damaged, ...groups.damaged];
  for (const { id, reason } of damaged) log.error({ pool: name, id, reason }, 'a snapshot record is damaged');
  return new SnapshotIndex(snapshots.records, groups.records, damaged);
}

/** Finishes or removes what a killed driver left half done. */
async function reconcile(parts: ImageParts): Promise<void> {
  const { devices, freezer, log, name, trash } = parts;
  const tell = (what: Leftover, count: number) => reconciled.publish({ pool: name, what, count });
  const detached = await devices.detachOrphans();
  for (const id of detached) {
    log.warn({ pool: name, volume_id: id }, 'detached a device that a killed driver had left');
  }
  tell('device', detached.length);
  const thawed = await freezer.thawAll(await devices.listAll());
  if (thawed > 0) log.warn({ pool: name, thawed }, 'thawed filesystems that a killed driver had left frozen');
  tell('frozen_filesystem', thawed);
  const grown = await new ImageVolumes(parts).finishGrowth();
  for (const id of grown) log.warn({ pool: name, volume_id: id }, 'finished what a killed driver had begun to expand');
  tell('unfinished_expansion', grown.length);
  for (const id of await new ImageSnapshots(parts).removeMemberless()) {
    log.warn({ pool: name, group_snapshot_id: id }, 'removed a group without members that a failed call had left');
  }
  const members = await new ImageSnapshots(parts).removeIncomplete();
  for (const id of members) {
    log.warn({ pool: name, snapshot_id: id }, 'removed a member of a group that was never finished');
  }
  tell('snapshot_of_unfinished_group', members.length);
  const ephemeral = await new ImageDeletion(parts).removeUnusedEphemeral();
  for (const id of ephemeral) {
    log.info({ pool: name, volume_id: id }, 'removed an ephemeral volume that was mounted nowhere');
  }
  tell('unused_ephemeral_volume', ephemeral.length);
  tell('draft_or_removed', await trash.sweep());
}
