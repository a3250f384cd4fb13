import { type DeviceMapper, mappedPath } from '../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { readWhatCan } from '../../../kernel/file/file.ts';
import { type LockHolder, lockHolders } from '../../../kernel/process/lock.ts';
import { HoldfastError } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import { lookAtRecords } from '../../catalog/look.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { Configured, LookRequest } from '../../kind.ts';
import { openMapper } from '../../mapped-device.ts';
import { type Finding, ok, type PoolContents, type PoolSight, type Shown, warn } from '../../sight.ts';
import { whyNotWhole } from './adoptable-content.ts';
import { type AdoptedDisk, findAdopted } from './adopted-disk.ts';
import type { DiskOptions } from './config.ts';
import { payloadIn } from './label/label.ts';
import { readPayload } from './label/label-copies.ts';
import { type LabelledDisk, readLabelled } from './label/labeller.ts';
import { NoteFile } from './label/note-file.ts';
import { idOf, type Payload } from './label/payload.ts';
import { slotBytes, slotCount } from './label/slots.ts';
import { MappedParts } from './mapped.ts';
import { deviceOfMember } from './match/open-matched.ts';
import { objectNamed } from './objects.ts';
import { refuseCopy } from './open.ts';
import { readerOf } from './record-store.ts';
import { DiskSpace } from './space.ts';
import { diskTraits } from './traits.ts';

/** Looks at a disk: reads both of its ends, and its label through the device that a driver has for it. */
export async function lookAtDiskPool(pool: Configured<DiskOptions>, request: LookRequest): Promise<PoolSight> {
  const { dataDirectory, queue } = request;
  const { name: poolName, own } = pool;
  let path = own.device;
  try {
    if (own.identity !== undefined) path = await deviceOfMember(request, poolName, own.identity);
    const location = { type: 'disk', path, holders: [] };
    const mapper = await openMapper(queue, `pool ${poolName}`);
    const place = { queue, poolName, dataDirectory, path };
    const adopted = await findAdopted(place, own.adopt);
    if (adopted !== undefined) {
      await using _device = adopted.device;
      return await lookAtAdopted(pool, request, mapper, adopted);
    }
    const disk = await readLabelled(place);
    if (disk === undefined) {
      const advice = `${path} holds no pool yet: the driver makes it at its first start, if the disk is blank (holdfast disks).`;
      return { location: { ...location, state: 'absent', advice }, contents: undefined };
    }
    const mapped = new MappedParts(poolName, disk.poolId, mapper, disk.found);
    const payload = await readLabel(queue, mapped, disk, poolName);
    await refuseCopy({ name: poolName, queue }, disk, payload);
    const holders = await holdersOf(queue, mapped);
    const contents = await contentsOf(pool, request, mapped, payload);
    return {
      location: { ...location, state: 'open', advice: undefined, holders },
      contents: { ...contents, findings: [tableFinding(disk)] },
    };
  } catch (error) {
    if (queue.closedFor !== undefined && !(error instanceof HoldfastError)) throw error;
    const advice = explain(error).replace(`pool ${poolName}: `, '');
    return { location: { type: 'disk', path, holders: [], state: 'broken', advice }, contents: undefined };
  }
}

/** Its records lie in the driver's directory. */
async function lookAtAdopted(
  pool: Configured<DiskOptions>,
  { dataDirectory, queue, wanted }: LookRequest,
  mapper: DeviceMapper,
  { found, payload }: AdoptedDisk,
): Promise<PoolSight> {
  const { lockPath } = new NoteFile(queue, dataDirectory, pool.name);
  const location = { type: 'disk', path: found.path, holders: await lockHolders(queue, lockPath).catch(() => []) };
  if (payload.object === undefined) {
    const partitions = await whyNotWhole(queue, found);
    const advice =
      partitions === undefined
        ? `what ${found.path} holds is no volume yet: holdfast adopt ${found.path} --pool ${pool.name} --claim NAMESPACE/NAME makes it one.`
        : `${found.path} cannot be adopted: ${partitions}.`;
    return { location: { ...location, state: 'absent', advice }, contents: undefined };
  }
  const mapped = new MappedParts(pool.name, payload.poolId, mapper, found);
  const contents = await contentsOf(pool, { dataDirectory, queue, wanted }, mapped, payload);
  return { location: { ...location, state: 'open', advice: undefined }, contents };
}

async function contentsOf(
  pool: Configured<DiskOptions>,
  { dataDirectory, queue, wanted }: Pick<LookRequest, 'dataDirectory' | 'queue' | 'wanted'>,
  mapped: MappedParts,
  payload: Payload,
): Promise<PoolContents> {
  const contents = await lookAtRecords(pool, {
    reader: readerOf(payload),
    source: new DiskSpace({ payload, obstacle: undefined }),
    wanted,
    marks: { markInTrash: async (ref: TrashRef) => objectNamed(payload, ref)?.mark, queue, dataDirectory },
  });
  return {
    ...contents,
    traits: diskTraits(payload.data.lengthBytes),
    findings: [],
    shown: new Map(shownOf(mapped, payload)),
  };
}

/**
 * Reads the label, through its device if there is one: the kernel's cache of the disk itself is older than a driver's
 * writes through that device.
 */
async function readLabel(
  queue: DiskQueue,
  mapped: MappedParts,
  disk: LabelledDisk,
  poolName: string,
): Promise<Payload> {
  const node = await mapped.openIfThere(queue, mapped.label);
  if (node === undefined) return payloadIn(disk, poolName);
  await using label = node.descriptor;
  const bytes = await readWhatCan(queue, label, { lengthBytes: slotBytes * slotCount, offsetBytes: 0 });
  return readPayload(bytes, poolName, disk.found.path).payload;
}

function shownOf(mapped: MappedParts, { object }: Payload): [VolumeId, Shown[]][] {
  const id = object?.state === 'volume' ? idOf(object) : undefined;
  const device = object && mapped.find(mapped.data(object.name))?.device;
  if (id === undefined || device === undefined) return [];
  return [[id, [{ kind: 'device', path: mappedPath(device), device }]]];
}

async function holdersOf(queue: DiskQueue, mapped: MappedParts): Promise<LockHolder[]> {
  const device = mapped.find(mapped.label)?.device;
  return device === undefined ? [] : await lockHolders(queue, mappedPath(device)).catch(() => []);
}

function tableFinding({ found, isWhole }: LabelledDisk): Finding {
  const check = 'partition table';
  if (isWhole) return ok(check, `${found.devicePath}: both halves are whole`);
  return warn(
    check,
    `${found.devicePath}: one half of it is damaged`,
    'Which program wrote to the disk? The volume is not affected. sgdisk -v shows the damage.',
  );
}
