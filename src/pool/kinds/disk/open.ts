import { DirectorySync } from '../../../kernel/file/file.ts';
import { DataLoss, FailedPrecondition } from '../../../volume/errors.ts';
import type { OpenContext, ReadyBackend } from '../../kind.ts';
import { type FoundDisk, othersWithName } from '../../location/disk/found-disk.ts';
import { openMapper } from '../../mapped-device.ts';
import { markerPathOf, readMarker, remember } from '../../records/pool-file.ts';
import { Wiper } from '../../wipe/wiper.ts';
import { findAdopted, openAdopted } from './adopted-disk.ts';
import type { DiskOptions } from './config.ts';
import { DiskBackend, type DiskBackendOptions } from './disk-backend.ts';
import { Label, payloadIn } from './label/label.ts';
import { type LabelledDisk, readOrLabel } from './label/labeller.ts';
import { mebibyte } from './label/layout.ts';
import type { Payload } from './label/payload.ts';
import { MappedParts } from './mapped.ts';
import { hasFilesystemOf, hasLabelOf, originalOf, refuseCopies, type TwinPlace } from './twins.ts';

export interface DiskPoolOptions extends OpenContext, DiskOptions {
  readonly name: string;
}

const callsAtOnce = 4;

/** Opens the storage of a pool that is one disk. */
export async function openDiskBackend(options: DiskPoolOptions): Promise<ReadyBackend> {
  const { adopt, dataDirectory, device: path, identity, log, name: poolName, queue } = options;
  const mapper = await openMapper(queue, `pool ${poolName}`);
  const place = { queue, poolName, dataDirectory, path, identity, log };
  const adopted = await findAdopted(place, adopt);
  if (adopted !== undefined) {
    try {
      // Without a volume nothing is read or written, and adoption refuses whatever has the name of another disk.
      if (adopted.payload.object !== undefined) {
        const question = await hasFilesystemOf(queue, adopted.device);
        warnOfTwins(options, await refuseCopies(options, adopted.found, question));
      }
    } catch (error) {
      await adopted.device[Symbol.asyncDispose]();
      throw error;
    }
    const parts = await openAdopted({ ...options, poolName }, mapper, adopted);
    return readyOver(options, { ...parts, found: adopted.found, blockSizeBytes: adopted.sectorBytes });
  }
  const disk = await readOrLabel(place);
  const { found, poolId, shape } = disk;
  const mapped = new MappedParts(poolName, poolId, mapper, found);
  const twins = await refuseCopy(options, disk, payloadIn(disk, poolName));
  let label: Label | undefined;
  try {
    const markerPath = markerPathOf(dataDirectory, poolName);
    const isKnown = (await readMarker(queue, markerPath)) !== undefined;
    label = await Label.open({ ...options, poolName }, mapped, disk, isKnown);
    if (twins.length > 0) {
      // A write to the disk shows through another path, and not on a copy.
      await label.probe(queue);
      warnOfTwins(options, await refuseCopies(options, found, hasLabelOf(poolId)));
    }
    await settle(options, disk, label);
    if (!disk.isWhole) {
      log.warn(
        { pool: poolName, device: path },
        'one half of the partition table of a disk is damaged (see sgdisk -v)',
      );
    }
    if (!isKnown) await remember({ queue, syncs: new DirectorySync() }, markerPath, poolId);
  } catch (error) {
    await label?.[Symbol.asyncDispose]();
    // The disk is free for its repair.
    await mapped.remove(queue, mapped.label).catch(() => undefined);
    throw error;
  }
  return readyOver(options, { label, mapped, found, blockSizeBytes: shape.sectorBytes });
}

type OpenParts = Pick<DiskBackendOptions, 'adoption' | 'blockSizeBytes' | 'label' | 'mapped' | 'requireOwn'> & {
  readonly found: FoundDisk;
};

function readyOver({ adopt, log, name, queue, wipe }: DiskPoolOptions, { found, ...parts }: OpenParts): ReadyBackend {
  const backend = new DiskBackend({
    ...{ ...parts, queue, poolName: name, wipePolicy: wipe, mayAdopt: adopt },
    calls: queue.beside('volumes', callsAtOnce),
    formatQueue: queue.beside('mkfs', 1),
    wiper: new Wiper({ poolName: name, log, queue, atOnce: 1 }),
  });
  return { backend, facts: { pool_id: parts.mapped.poolId, device: found.devicePath } };
}

/**
 * A disk that was copied is two disks with one label. The copy is known by the disk that its label was written on, as long as
 * that one is there and has the label.
 * @returns the disks that nothing tells from it
 */
export async function refuseCopy(
  { name, queue }: TwinPlace,
  { found, poolId }: LabelledDisk,
  { disk }: Payload,
): Promise<readonly string[]> {
  const twins = await refuseCopies({ name, queue }, found, hasLabelOf(poolId));
  if (disk.name === found.name) return twins;
  const named = await othersWithName(queue, found, disk.name);
  const original = await originalOf(queue, found.devicePath, named, poolId);
  if (original === undefined) return twins;
  throw new FailedPrecondition(
    `pool ${name}: ${found.path} has the label of another disk that is there, too (${original}): one is a copy of the other. Take one of them out, or clear the copy. Nothing was changed.`,
  );
}

function warnOfTwins({ log, name }: DiskPoolOptions, twins: readonly string[]): void {
  for (const twin of twins) {
    log.warn({ pool: name, device: twin }, 'a disk is there twice: by two paths, which multipath would make one');
  }
}

/** The label says where the data lies; and from now on that it is this disk. */
async function settle({ name }: DiskPoolOptions, { found, shape }: LabelledDisk, label: Label): Promise<void> {
  const { data, disk } = label.payload;
  const isInside = data.offsetBytes >= 2n * mebibyte && data.offsetBytes + data.lengthBytes <= shape.sizeBytes;
  if (!isInside || data.lengthBytes === 0n) {
    throw new DataLoss(`pool ${name}: the data of its volume is not all on ${found.path}. Nothing was changed.`);
  }
  const here = { name: found.name ?? disk.name, sizeBytes: shape.sizeBytes };
  if (here.name === disk.name && here.sizeBytes === disk.sizeBytes) return;
  await label.change((payload) => ({ ...payload, disk: here }));
}
