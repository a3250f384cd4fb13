import { liveFilesystem } from '../../kernel/mount/mounted-device.ts';
import type { Backend } from '../backend.ts';
import { type Leftover, reconciled } from '../events.ts';
import { type AttachedVolume, Freezer } from '../freeze/freezer.ts';
import { RecordIndex } from '../indexes/record-index.ts';
import { SnapshotIndex } from '../indexes/snapshot-index.ts';
import type { PoolLog } from '../log.ts';
import { SpaceLedger } from '../space/space-ledger.ts';
import { Catalog, type CatalogSettings } from './catalog.ts';
import { Deletion } from './deletion.ts';
import { Generations } from './generations.ts';
import { leftInTrash } from './left-in-trash.ts';
import type { CatalogParts } from './parts.ts';
import { Snapshots } from './snapshots.ts';
import { Trash } from './trash.ts';
import { Unsettled } from './unsettled.ts';
import { Volumes } from './volumes.ts';

export interface CatalogOptions extends CatalogSettings {
  readonly name: string;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  /** The name of this node. */
  readonly nodeName: string;
  /** undefined: a share of the storage (`defaultReserveBytes`). */
  readonly reserveBytes: bigint | undefined;
  /** 1: never provision more than there is. */
  readonly overcommit: number;
  /** The time for which deleted volumes can be restored, unless they have their own; 0: not at all. */
  readonly undeleteSeconds: number;
  readonly log: PoolLog;
}

/**
 * Opens a pool over a backend that is ready, and reconciles it with what a crash or a reboot left: half-made and
 * half-removed volumes go, devices that are not visible go, everything else is as it was.
 */
export async function openCatalog(backend: Backend, options: CatalogOptions): Promise<Catalog> {
  const { log, name } = options;
  const { queue } = backend;
  const handedOver = (await backend.extras.adoption?.reconcile()) ?? [];
  for (const id of handedOver) {
    log.warn({ pool: name, volume_id: id }, 'took up an adoption or a release that a killed driver had begun');
  }
  const { index, snapshotIndex } = await readIndexes(backend, options);
  const onError = (ref: string, error: unknown) =>
    log.error({ pool: name, path: ref, err: error }, 'cannot destroy a deleted volume or snapshot; it is tried again');
  const generations = await Generations.open(options.dataDirectory, options.nodeName, queue);
  const hasLeft = leftInTrash(backend.extras.transfer, generations);
  const trash = new Trash({ backend, queue, hasLeft, onError });
  const counts = () => backend.attacher.counts();
  const space = new SpaceLedger({
    ...options,
    poolName: name,
    source: backend.space,
    index,
    snapshotIndex,
    trash,
    counts,
  });
  if (backend.space.templates !== undefined) backend.space.templates.hold = (bytes) => space.holdSpare(bytes);
  trash.isShared = (ref) => space.mayBeShared(ref);
  trash.onGone = (ref) => space.gone(ref);
  const parts: CatalogParts = {
    ...{ name, backend, log, undeleteSeconds: options.undeleteSeconds, index, snapshotIndex, space, trash },
    freezer: new Freezer({ ...options, queue }),
    unsettled: new Unsettled({ backend, index, snapshotIndex, trash }),
    generations,
    untouched: new WeakSet(),
  };
  try {
    await reconcile(parts);
  } catch (error) {
    trash.abandon();
    throw error;
  }
  return new Catalog(parts, options).begin();
}

async function readIndexes(
  backend: Backend,
  { log, name }: CatalogOptions,
): Promise<Pick<CatalogParts, 'index' | 'snapshotIndex'>> {
  const { groups, snapshots, volumes } = await backend.records.read();
  for (const { id, reason } of volumes.damaged)
    log.error({ pool: name, volume_id: id, reason }, 'a volume record is damaged');
  for (const { id, reason } of [...snapshots.damaged, ...groups.damaged])
    log.error({ pool: name, id, reason }, 'a snapshot record is damaged');
  return { index: new RecordIndex('volume', volumes), snapshotIndex: new SnapshotIndex(snapshots, groups) };
}

/** Finishes or removes what a killed driver left half done. */
async function reconcile(parts: CatalogParts): Promise<void> {
  const { backend, freezer, log, name, trash } = parts;
  const tell = (what: Leftover, count: number) => reconciled.publish({ pool: name, what, count });
  const detached = await backend.attacher.detachOrphans();
  for (const id of detached) {
    log.warn({ pool: name, volume_id: id }, 'detached a device that a killed driver had left');
  }
  tell('device', detached.length);
  const unnoted = await freezer.thawUnnoted(() => attachedVolumes(parts));
  if (unnoted > 0) {
    const words =
      'thawed frozen filesystems, as the driver before this version left no notes: perhaps a backup froze them';
    log.warn({ pool: name, thawed: unnoted }, words);
  }
  const left = await freezer.thawLeft(backend.attacher);
  if (left > 0) log.warn({ pool: name, thawed: left }, 'thawed filesystems that a killed driver had left frozen');
  const thawed = unnoted + left;
  const ended = await freezer.endUnseen(...(await attachedVolumes(parts)));
  if (ended > 0)
    log.warn({ pool: name, thawed: ended }, 'thawed filesystems that were left frozen when they were unmounted');
  tell('frozen_filesystem', thawed + ended);
  const grown = await new Volumes(parts).finishGrowth();
  for (const id of grown) log.warn({ pool: name, volume_id: id }, 'finished what a killed driver had begun to expand');
  tell('unfinished_expansion', grown.length);
  const snapshots = new Snapshots(parts);
  for (const id of await snapshots.removeMemberless()) {
    log.warn({ pool: name, group_snapshot_id: id }, 'removed a group without members that a failed call had left');
  }
  const members = await snapshots.removeIncomplete();
  for (const id of members) {
    log.warn({ pool: name, snapshot_id: id }, 'removed a member of a group that was never finished');
  }
  tell('snapshot_of_unfinished_group', members.length);
  const ephemeral = await new Deletion(parts).removeUnusedEphemeral();
  for (const id of ephemeral) {
    log.info({ pool: name, volume_id: id }, 'removed an ephemeral volume that was mounted nowhere');
  }
  tell('unused_ephemeral_volume', ephemeral.length);
  tell('draft_or_removed', await trash.sweep());
}

/** The volumes whose devices show a filesystem that the kernel has in use. */
async function attachedVolumes({ backend, index }: CatalogParts): Promise<AttachedVolume[]> {
  const { attacher } = backend;
  const devices = (await attacher.all()).filter((each) => each.kind === 'device');
  const owned = devices.map(async (each) => {
    if (liveFilesystem(each.devicePath) === undefined) return [];
    const seen = await attacher.volumeSeen({ device: each.device, mount: undefined });
    const record = seen && index.get(seen.id);
    return record === undefined ? [] : [{ ...record, attached: [each] }];
  });
  return (await Promise.all(owned)).flat();
}
