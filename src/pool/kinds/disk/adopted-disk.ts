import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type Content, probeContent } from '../../../kernel/block/blkid.ts';
import { sizeOfDevice } from '../../../kernel/block/block.ts';
import type { DeviceMapper } from '../../../kernel/block/device-mapper.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { DataLoss, FailedPrecondition } from '../../../volume/errors.ts';
import { type FoundDisk, locateDisk, openDisk } from '../../location/disk/found-disk.ts';
import { DiskAdoption } from './adoption.ts';
import type { LabelOptions } from './label/label.ts';
import { hasSomethingElse, type LabelledPlace } from './label/labeller.ts';
import { type Note, NoteFile } from './label/note-file.ts';
import { NoteLabel } from './label/note-label.ts';
import type { Payload } from './label/payload.ts';
import { MappedParts } from './mapped.ts';

/** A disk that has a volume it was not made for, or can have one. */
export interface AdoptedDisk {
  readonly found: FoundDisk;
  readonly sizeBytes: bigint;
  readonly sectorBytes: number;
  readonly payload: Payload;
  /** Open for reading. */
  readonly device: Descriptor;
}

/**
 * Changes nothing.
 * @param mayAdopt the disk's content, if it is not ours, will become a volume
 * @returns undefined if the disk has our label, or will get one
 * @throws FailedPrecondition, DataLoss if it is not the disk that was adopted
 */
export async function findAdopted(place: LabelledPlace, mayAdopt: boolean): Promise<AdoptedDisk | undefined> {
  const { dataDirectory, path, poolName, queue } = place;
  const note = await new NoteFile(queue, dataDirectory, poolName).read();
  if (note === undefined && !(mayAdopt && (await hasSomethingElse(place)))) return undefined;
  const found = await locateDisk(queue, poolName, path);
  const { descriptor, shape } = await openDisk(queue, found, constants.O_RDONLY);
  try {
    const payload = note?.payload ?? {
      poolId: randomUUID(),
      disk: { name: found.name ?? '', sizeBytes: shape.sizeBytes },
      data: { offsetBytes: 0n, lengthBytes: shape.sizeBytes },
    };
    if (note !== undefined)
      await requireAdopted(place, note, found, { device: descriptor, sizeBytes: shape.sizeBytes });
    return { found, ...shape, payload, device: descriptor };
  } catch (error) {
    await descriptor[Symbol.asyncDispose]();
    throw error;
  }
}

/** The parts of a backend over such a disk. */
export async function openAdopted(
  options: LabelOptions & { readonly dataDirectory: string },
  mapper: DeviceMapper,
  { device, found, payload, sectorBytes }: AdoptedDisk,
): Promise<AdoptedParts> {
  const { dataDirectory, poolName, queue } = options;
  const label = await NoteLabel.open(options, new NoteFile(queue, dataDirectory, poolName), payload, device);
  const mapped = new MappedParts(poolName, label.payload.poolId, mapper, found);
  const adoption = new DiskAdoption({ found, label, mapped, poolName, queue, sectorBytes });
  const requireOwn = async (calls: DiskQueue, shown: Descriptor) => {
    await label.dropCache(calls);
    const seen = { device: shown, sizeBytes: sizeOfDevice(shown) };
    await requireAdopted({ path: found.path, poolName, queue: calls }, label.note, found, seen);
  };
  return { label, mapped, adoption, requireOwn };
}

interface AdoptedParts {
  readonly label: NoteLabel;
  readonly mapped: MappedParts;
  readonly adoption: DiskAdoption;
  /** No device of ours holds such a disk while its volume is not attached: it may have been formatted since it was opened. */
  readonly requireOwn: (queue: DiskQueue, device: Descriptor) => Promise<void>;
}

/** @throws FailedPrecondition, DataLoss */
async function requireAdopted(
  { path, poolName, queue }: Pick<LabelledPlace, 'path' | 'poolName' | 'queue'>,
  note: Note,
  { name }: FoundDisk,
  { device, sizeBytes }: { readonly device: Descriptor; readonly sizeBytes: bigint },
): Promise<void> {
  const { data, disk } = note.payload;
  const content = await device.during((path) => probeContent(queue, path));
  const difference = differenceFrom(note, { name, sizeBytes, content });
  if (difference === undefined) return;
  if (difference === 'size') {
    throw new DataLoss(
      `pool ${poolName}: ${path} has ${sizeBytes} bytes, and had ${data.lengthBytes} when it was adopted: data is missing. Nothing was changed.`,
    );
  }
  const what =
    difference === 'disk'
      ? `is another disk (${name ?? 'without a name'})`
      : `does not hold the ${note.filesystem?.type} with UUID ${note.filesystem?.uuid}`;
  throw new FailedPrecondition(
    `pool ${poolName}: ${path} ${what}. Put the disk back that was adopted (${disk.name}). Nothing was changed (docs/disks.md).`,
  );
}

/** The observed disk. */
interface SeenDisk {
  readonly name: string | undefined;
  readonly sizeBytes: bigint;
  readonly content: Content;
}

/**
 * In what a disk is not the one that was adopted, by the name that the kernel has for it, and by the filesystem that it held.
 * undefined: it is.
 */
export function differenceFrom(
  { filesystem, payload }: Note,
  { content, name, sizeBytes }: SeenDisk,
): 'disk' | 'size' | 'filesystem' | undefined {
  const { data, disk, object } = payload;
  if (name !== disk.name) return 'disk';
  if (sizeBytes < data.lengthBytes) return 'size';
  if (filesystem === undefined) return undefined;
  // A volume being wiped loses its filesystem by and by. Another filesystem is foreign: e.g. the note has come back
  // with a backup.
  if (object?.state === 'removed' && content.kind === 'blank') return undefined;
  return content.kind === 'filesystem' && content.uuid === filesystem.uuid ? undefined : 'filesystem';
}
