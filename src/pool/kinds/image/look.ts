import { type LoopStatus, listLoops } from '../../../kernel/block/loop.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { seesReflink } from '../../../kernel/file/filesystem.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { type SnapshotId, type VolumeId, volumeIdInPath } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { TemplateSpace } from '../../backend.ts';
import { lookAtRecords } from '../../catalog/look.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { Configured, LookRequest } from '../../kind.ts';
import type { FoundLocation } from '../../location/find.ts';
import { lookInLocation } from '../../location/look.ts';
import { mountOf } from '../../location/mount-of.ts';
import { FileRecords } from '../../records/file-records.ts';
import { Layout } from '../../records/layout.ts';
import { readMark, readMarkInTrash } from '../../records/move-marks.ts';
import { hostReservePath } from '../../records/reserved-space.ts';
import {
  type Finding,
  ok,
  type PoolContents,
  type PoolSight,
  type Shown,
  wantsAttachments,
  warn,
} from '../../sight.ts';
import { changedBlocksIn } from './changed-blocks.ts';
import type { ImageOptions } from './config.ts';
import { ImageSpace } from './image-space.ts';
import { readTemplates } from './templates.ts';
import { imageTraits } from './traits.ts';

export function lookAtImagePool(pool: Configured<ImageOptions>, request: LookRequest): Promise<PoolSight> {
  const options = { ...request, ...pool.own, poolName: pool.name };
  return lookInLocation(options, (found) => readContents(pool, request, found));
}

async function readContents(
  pool: Configured<ImageOptions>,
  { dataDirectory, queue, wanted }: LookRequest,
  location: FoundLocation,
): Promise<PoolContents> {
  const layout = new Layout(location.root);
  const backingFile = location.type === 'file' ? location.path : undefined;
  const templates = await readTemplates(queue, layout);
  const canShareBlocks = await seesReflink(queue, layout.root);
  const cloning = canShareBlocks === false ? 'copy' : 'reflink';
  const reserve = {
    bytes: await allocatedBytes(queue, layout.reserve),
    hostBytes: backingFile === undefined ? 0n : await allocatedBytes(queue, hostReservePath(backingFile)),
  };
  const source = new ImageSpace({ queue, layout, cloning, backingFile, reserve, templates: onlySeen(templates) });
  const marks = {
    ...{ readMark: (id: SnapshotId) => readMark({ layout, queue }, id), queue, dataDirectory },
    markInTrash: (ref: TrashRef) => readMarkInTrash({ queue }, ref),
  };
  const held = await lookAtRecords(pool, { reader: new FileRecords({ queue, layout }), source, wanted, marks });
  const changedBlocks = await changedBlocksIn(queue, layout, cloning);
  return {
    ...held,
    traits: canShareBlocks === undefined ? imageTraits : { ...imageTraits, snapshots: cloning, changedBlocks },
    findings: [
      reflinkFinding(canShareBlocks),
      ...erasureFindings((await mountOf(queue, layout.root))?.fsType, held.records),
    ],
    shown: wantsAttachments(wanted) ? await shownBy(queue, layout, held.records) : new Map(),
  };
}

/** Only the driver makes templates, or gives them up. */
function onlySeen(found: ReadonlyMap<string, bigint> | undefined): TemplateSpace {
  return {
    takenBytes: [...(found?.values() ?? [])].reduce((sum, bytes) => sum + bytes, 0n),
    wereThere: found !== undefined,
    hold: async () => undefined,
    takeFresh: () => false,
    clear: async () => false,
  };
}

/** The file may be missing. */
async function allocatedBytes(queue: DiskQueue, path: string): Promise<bigint> {
  return (await statusOf(queue, path).catch(() => undefined))?.allocatedBytes ?? 0n;
}

/** Snapshots and clones share blocks where the filesystem can; elsewhere they are copies. */
function reflinkFinding(canShareBlocks: boolean | undefined): Finding {
  if (canShareBlocks === true) return ok('reflink', 'files can share blocks');
  if (canShareBlocks === undefined) return ok('reflink', 'not known without writing: the driver tries it at its start');
  return warn(
    'reflink',
    'files cannot share blocks here',
    'Snapshots and clones will have to be copies. XFS and btrfs can share.',
  );
}

/** btrfs writes elsewhere: overwritten data is still on the disk, also the keys of a deleted volume. */
export function erasureFindings(
  fsType: string | undefined,
  records: readonly Pick<VolumeRecord, 'encryption'>[],
): Finding[] {
  if (fsType !== 'btrfs' || !records.some(({ encryption }) => encryption !== undefined)) return [];
  const remedy =
    'Use a pool on XFS or ext4, a volume group or a disk for them, or keys that are destroyed with them. See docs/encryption.md.';
  return [
    warn('encryption', 'on btrfs encrypted volumes that are deleted can be read as long as their key is there', remedy),
  ];
}

/**
 * The loop devices of each volume. Devices of other pools are not even opened: those of a disk that hangs may hang, too.
 */
async function shownBy(
  queue: DiskQueue,
  layout: Layout,
  records: readonly VolumeRecord[],
): Promise<ReadonlyMap<VolumeId, Shown[]>> {
  if (records.length === 0) return new Map();
  const ids = new Set<string | undefined>(records.map(({ id }) => id));
  const loops = await listLoops(queue, (path) => ids.has(volumeIdInPath(path)));
  // Most often none is in use.
  if (loops.length === 0) return new Map();
  return new Map(
    await Promise.all(
      records.map(async ({ id }) => {
        const own = await loopsOf(queue, layout.data(id), id, loops);
        const shown = own.map(({ device, devicePath }): Shown => ({ kind: 'device', path: devicePath, device }));
        return [id, shown] as const;
      }),
    ),
  );
}

/** By inode, as the driver does; an image that is gone is known by the device's label. */
async function loopsOf(
  queue: DiskQueue,
  imagePath: string,
  id: VolumeId,
  loops: readonly LoopStatus[],
): Promise<LoopStatus[]> {
  try {
    const image = await statusOf(queue, imagePath);
    return loops.filter((loop) => sameDevice(loop.backingDevice, image.device) && loop.backingInode === image.inode);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    return loops.filter((loop) => loop.label === id);
  }
}
