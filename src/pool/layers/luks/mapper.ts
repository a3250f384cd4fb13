import { randomUUID } from 'node:crypto';
import { type KeyMaterial, type LuksOpen, openLuks, resizeLuks, WrongKey } from '../../../command/cryptsetup.ts';
import { CommandError } from '../../../command/run.ts';
import {
  DeviceMapper,
  findMapped,
  forgetMappedNode,
  type MappedOver,
  type MappedState,
} from '../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { errnoName, KernelError } from '../../../kernel/call/errno.ts';
import { sameDevice } from '../../../kernel/device.ts';
import type { Encryption } from '../../../volume/encryption.ts';
import { DataLoss, FailedPrecondition, InternalError, Unavailable } from '../../../volume/errors.ts';
import type { VolumeHandle } from '../../../volume/handle.ts';
import { mapperName } from '../../../volume/mapper-name.ts';
import { step } from '../../../volume/step.ts';
import type { AttachedDevice } from '../../pool.ts';
import { readHeader } from './header.ts';
import type { LuksParts } from './luks-layer.ts';

/** A volume that is opened, with the name of its key as far as that is known. */
export interface Opened {
  readonly id: VolumeHandle;
  readonly encryption?: Pick<Encryption, 'keyId'> | undefined;
}

/** The name for a volume being made. A driver that was killed leaves one, so the name has the pool's tag. */
export function draftName(id: string, poolTag: string): string {
  return `holdfast-${id}-draft-${poolTag}-${randomUUID().slice(0, 8)}`;
}

export function isDraftOf(name: string, poolTag: string): boolean {
  return name.startsWith('holdfast-') && name.includes(`-draft-${poolTag}-`);
}

/**
 * The volume's device over this one, if it is there.
 * @throws FailedPrecondition if a device of that name is foreign, or is of no use: nothing is done to it
 */
export async function findOver(
  queue: DiskQueue,
  id: VolumeHandle,
  lower: AttachedDevice,
): Promise<MappedOver | undefined> {
  await removeUnfinished(queue, mapperName(id));
  const [found] = await findMapped(queue, (name) => name === mapperName(id));
  if (found === undefined || found.backing.some((each) => sameDevice(each, lower.device))) return found;
  const { backing, devicePath } = found;
  const [other] = backing;
  const remove = `dmsetup remove ${mapperName(id)}`;
  throw new FailedPrecondition(
    other === undefined
      ? `volume ${id}: its mapper ${devicePath} is left over a device that is gone. Stop what uses it (see lsof ${devicePath}), then: ${remove}`
      : `volume ${id}: its mapper ${devicePath} is over device ${other.major}:${other.minor}, not over ${lower.devicePath}. Find out which program made it, then: ${remove}`,
  );
}

/** One for which cryptsetup was killed before it had a table: it shows nothing, and stands in the way of another. */
async function removeUnfinished(queue: DiskQueue, name: string): Promise<void> {
  const mapper = await DeviceMapper.open(queue);
  if (mapper.find(name)?.isLive === false) await step('luks/close', () => mapper.removeUnused(queue, name));
}

interface OpenRequest extends LuksOpen {
  readonly key: KeyMaterial;
  /** Data from before a change of the key still has the old one; it is changed when the volume is staged. */
  readonly previous?: KeyMaterial | undefined;
}

/** Opens an encrypted volume. @throws FailedPrecondition for a key that does not fit, DataLoss for a damaged header */
export async function openMapper(
  { programs, queue }: Pick<LuksParts, 'programs' | 'queue'>,
  volume: Opened,
  request: OpenRequest,
): Promise<MappedOver> {
  const { key, previous, ...open } = request;
  const openWith = (bytes: KeyMaterial) => programs.cryptsetup(() => openLuks(open, bytes));
  try {
    await step('luks/open', () =>
      openWith(key).catch((error) => {
        if (previous === undefined || !(error instanceof WrongKey)) throw error;
        return openWith(previous);
      }),
    );
  } catch (error) {
    throw await explained(queue, error, { devicePath: open.devicePath, volume });
  }
  const [made] = await findMapped(queue, (name) => name === open.name);
  if (made === undefined) throw new InternalError(`volume ${volume.id}: ${open.name} is gone as soon as it was made.`);
  await forgetMappedNode(queue, open.name);
  return made;
}

/**
 * The meaning of a refusal of cryptsetup. It calls an unreadable header damaged, too: so the header is read here, and a
 * failure is reported to the watch of the pool's disk.
 */
export async function explained(
  queue: DiskQueue,
  error: unknown,
  { devicePath, volume }: { readonly devicePath: string; readonly volume: Opened },
): Promise<unknown> {
  if (error instanceof WrongKey) return wrongKey(volume);
  // The words of cryptsetup for a device with tags of integrity that is opened with discards.
  if (error instanceof CommandError && error.stderr.includes('Discard/TRIM is not supported')) {
    return new FailedPrecondition(
      `volume ${volume.id}: its encryption has data integrity (dm-integrity), which is not opened here: make another one without --integrity, and copy the data. Nothing was changed.`,
    );
  }
  if (!(error instanceof CommandError) || !/not a valid LUKS|header|Metadata|IO error|size/i.test(error.stderr))
    return error;
  try {
    await readHeader(queue, devicePath);
  } catch (failure) {
    if (failure instanceof RangeError) {
      return new DataLoss(`volume ${volume.id}: its device has become smaller than its header: data is missing.`);
    }
    if (!(failure instanceof KernelError)) throw failure;
    // A failed call of the kernel is no failed job of the queue: the watch of the disk would not hear of it.
    queue.onFailure?.(failure);
    return new Unavailable(
      `volume ${volume.id}: the header of its encryption cannot be read (${errnoName(failure) ?? failure.message}): see the kernel's log (dmesg). Nothing was changed.`,
    );
  }
  if (!/not a valid LUKS|header|Metadata/i.test(error.stderr)) return error;
  return new DataLoss(
    `volume ${volume.id}: the header of its encryption is damaged, and so is its copy. Restore it from a backup (cryptsetup luksHeaderRestore), or the volume from a snapshot.`,
  );
}

export function wrongKey({ encryption, id }: Opened): FailedPrecondition {
  const refusal = `volume ${id}: the key that came with the call does not open it`;
  if (encryption === undefined) return new FailedPrecondition(`${refusal}: correct its Secret. Nothing was changed.`);
  return new FailedPrecondition(
    `${refusal}; it needs ${encryption.keyId}. A snapshot or clone has the key that its source had. Nothing was changed.`,
  );
}

/** It goes now, or with its last user. */
export async function closeMapper(queue: DiskQueue, mapper: MappedOver): Promise<void> {
  await step('luks/close', () => removeMapper(queue, mapper));
}

/** By its UUID, which has its name in it: another may have its number by now, and a new one has another UUID. */
export async function removeMapper(queue: DiskQueue, mapper: MappedOver): Promise<void> {
  await (await DeviceMapper.open(queue)).removeWhenUnused(queue, sureName(mapper));
}

/** @returns undefined if it is gone */
export async function stateOf(queue: DiskQueue, mapper: MappedOver): Promise<MappedState | undefined> {
  return (await DeviceMapper.open(queue)).find(sureName(mapper));
}

/** One without a UUID was made by another program. */
function sureName({ device, uuid }: MappedOver): MappedOver['device'] | { readonly uuid: string } {
  return uuid === '' ? device : { uuid };
}

/** Shows an encrypted volume as a device, to nothing else, for the time of `work`. */
export async function withMapper<T>(
  parts: Pick<LuksParts, 'programs' | 'queue'>,
  volume: Opened,
  request: OpenRequest,
  work: (devicePath: string) => Promise<T>,
): Promise<T> {
  const { queue } = parts;
  const mapper = await openMapper(parts, volume, request);
  try {
    return await work(mapper.devicePath);
  } finally {
    await closeMapper(queue, mapper);
  }
}

/** Makes the mapper as large as the device below. */
export async function resizeMapper(
  { programs, queue }: Pick<LuksParts, 'programs' | 'queue'>,
  name: string,
): Promise<void> {
  try {
    await step('luks/resize', () => programs.cryptsetup(() => resizeLuks(name)));
    await forgetMappedNode(queue, name);
  } catch (error) {
    // It went while we looked: its last user has gone.
    if (error instanceof CommandError && (await findMapped(queue, (each) => each === name)).length === 0) return;
    throw error;
  }
}

/** True if it is not open now. */
export async function isUnused(queue: DiskQueue, mapper: MappedOver): Promise<boolean> {
  return (await stateOf(queue, mapper))?.openCount === 0;
}
