import { randomUUID } from 'node:crypto';
import { probeContent } from '../../../../kernel/block/blkid.ts';
import type { Descriptor } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { readAtMost } from '../../../../kernel/file/file.ts';
import type { VolumeContent } from '../../../../volume/capability.ts';
import { luksHeaderBytes, newKeyId } from '../../../../volume/encryption.ts';
import { FailedPrecondition, Unavailable } from '../../../../volume/errors.ts';
import { fileNameOf, type VolumeHandle } from '../../../../volume/handle.ts';
import { step } from '../../../../volume/step.ts';
import { locateDevice } from '../../../location/disk/found-disk.ts';
import { findScatteredData } from '../../../location/disk/scattered-data.ts';
import { type TakenDisk, takeDisk } from '../../../location/disk/take-disk.ts';
import type { PoolLog } from '../../../log.ts';
import type { AttachedDevice } from '../../../pool.ts';
import { formatNew, makeFilesystem } from '../format.ts';
import { bothCopiesBytes, type HeaderNames, isHeaderAlone } from '../header.ts';
import type { Keys } from '../key.ts';
import type { LuksParts } from '../luks-layer.ts';
import { draftName, withMapper } from '../mapper.ts';
import { closeMappers, draftsOver, draftTag } from './mappers.ts';
import { markBytes, markPlaces, openForMarks, type Progress, progressOf, readProgress, writeMark } from './marks.ts';

/*
 * The encryption of a disk that a PersistentVolume names is made at its first stage, on the node. No record says how far that
 * came, and another node may finish it, so the disk says it, by marks (marks.ts):
 *   blank      mark the data's place
 *   begun      a mark there: make the header, mark the end of the header, take the first mark away
 *   formatted  a mark at the end of the header: make the filesystem, take that mark away
 *   finished   a header, and no mark. Only now anything is mounted or shown.
 * The header is made on blank disks alone, the filesystem only in a header that was made here.
 */

type Parts = Pick<LuksParts, 'programs' | 'queue'>;

interface FirstUse {
  readonly handle: VolumeHandle;
  readonly content: VolumeContent;
  readonly lower: AttachedDevice;
  readonly keys: Keys;
  /** Nothing will be written to the volume: then nothing is made for it either. */
  readonly isReadonly: boolean;
  readonly log: PoolLog;
}

/** A part of the work that was done by another process. */
interface Own extends Progress {
  /** Set: only its filesystem is missing. */
  readonly formatted: HeaderNames | undefined;
}

/** One work on a disk. */
interface Work {
  readonly claim: string;
  readonly uuid: string;
  readonly keyId: string | undefined;
}

/** A disk that can be opened. */
export interface PreparedDisk {
  /** The name of the key, as far as the header tells it. */
  readonly keyId: string | undefined;
  /** The UUID of its header. */
  readonly uuid: string;
}

const ownKeyId = /^key-[0-9a-f]{16}$/;
const headerBytes = BigInt(luksHeaderBytes);
/** Room for data beside the header. */
const minBytes = 2n * headerBytes;

/**
 * Makes the header and the filesystem of a disk that is blank, or on which that was not finished. One that has a header keeps it,
 * also if another program made it.
 * @throws FailedPrecondition for a disk with anything else
 */
export async function prepareDisk(parts: Parts, use: FirstUse): Promise<PreparedDisk> {
  const { handle, isReadonly, log, lower } = use;
  const progress = await readProgress(parts.queue, lower.devicePath);
  const { names } = progress;
  if (names !== undefined && ownIn(progress) === undefined) return { keyId: keyIdIn(names.label), uuid: names.uuid };
  if (isReadonly) throw blankAndReadonly(handle, lower.devicePath);
  const { keyId, uuid } = await encryptDisk(parts, use);
  log.info({ volume_id: handle, key_id: keyId }, 'the encryption of a blank disk was made');
  return { keyId, uuid };
}

/** Checks that the disk has the header that was prepared: another node may have made one at the same time. @throws Unavailable */
export async function requirePrepared(
  queue: DiskQueue,
  handle: VolumeHandle,
  { devicePath }: AttachedDevice,
  { uuid }: PreparedDisk,
): Promise<void> {
  await requireProgress(queue, handle, devicePath, (now) => ownIn(now) === undefined && now.names?.uuid === uuid);
}

async function requireProgress(
  queue: DiskQueue,
  handle: VolumeHandle,
  devicePath: string,
  isAsLeft: (now: Progress) => boolean,
): Promise<void> {
  if (isAsLeft(await readProgress(queue, devicePath))) return;
  throw new Unavailable(
    `volume ${handle}: another node encrypts ${devicePath} at this moment, or has done so. It is tried again; give the disk to one cluster, and one node at a time.`,
  );
}

const blank: Progress = { data: undefined, header: undefined, names: undefined };

function isSame(one: Progress, other: Progress): boolean {
  return one.data === other.data && one.header === other.header && one.names?.uuid === other.names?.uuid;
}

function keyIdIn(label: string): string | undefined {
  return ownKeyId.test(label) ? label : undefined;
}

/** The part of the work that was done, by the marks alone; undefined: there is none. */
function ownIn({ data, header, names }: Progress): 'begun' | 'formatted' | undefined {
  if (data !== undefined) return 'begun';
  return header !== undefined && names !== undefined ? 'formatted' : undefined;
}

async function encryptDisk(parts: Parts, use: FirstUse): Promise<PreparedDisk> {
  const { queue } = parts;
  const { content, handle, log, lower } = use;
  const { devicePath } = lower;
  await closeMappers(queue, handle, () => draftsOver(queue, lower.device));
  await using taken = await takeDisk({
    ...{ queue, log, poolName: handle, isNamed: true, needsNoName: true, isLookedAtAllOver: true },
    refusal: (path, reasons) => cannotBeEncrypted(handle, path, reasons),
    locate: () => locateDevice(queue, devicePath, lower.device),
    findOwn: ({ device }) => findOwn(queue, device),
  });
  const { sectorBytes, sizeBytes } = taken.limits;
  if (sizeBytes < minBytes) throw cannotBeEncrypted(handle, devicePath, [`it has ${sizeBytes} bytes only`]);
  const formatted = taken.own?.formatted;
  const work =
    formatted === undefined ? await makeHeader(parts, use, taken) : await claimFormatted(parts, use, taken, formatted);
  const { claim, keyId, uuid } = work;
  const isMine = (now: Progress) => now.data === undefined && now.header === claim && now.names?.uuid === uuid;
  if (content.type === 'mount') {
    const data = { content, mkfsArguments: [], blockSizeBytes: sectorBytes, sizeBytes: sizeBytes - headerBytes };
    const { current: key, previous } = use.keys;
    const draft = { devicePath, key, previous, name: draftName(fileNameOf(handle), draftTag) };
    const opened = { id: handle, encryption: keyId === undefined ? undefined : { keyId } };
    await withMapper(parts, opened, draft, async (path) => {
      await requireProgress(queue, handle, devicePath, isMine);
      await step('create/format', () => makeFilesystem(parts, path, data));
    });
    await closeMappers(queue, handle, () => draftsOver(queue, lower.device));
  }
  await requireProgress(queue, handle, devicePath, isMine);
  await step('luks/finish', () => changeMark(queue, devicePath, 'header', undefined));
  return { keyId, uuid };
}

/** The header of a disk that is blank, or on which there is only a part of one. */
async function makeHeader({ programs, queue }: Parts, use: FirstUse, taken: TakenDisk<Own>): Promise<Work> {
  const { handle, keys, lower } = use;
  const { devicePath } = lower;
  const work = { claim: randomUUID(), uuid: randomUUID(), keyId: newKeyId() };
  const { claim, keyId, uuid } = work;
  const { data, header, names } = taken.own ?? blank;
  // To see that it is blank took a while.
  await requireProgress(queue, handle, devicePath, (now) => isSame(now, { data, header, names }));
  await step('luks/mark', () => writeMark(queue, taken.device, 'data', claim));
  await taken.yieldToProgram(async (device) => {
    await requireProgress(queue, handle, devicePath, (now) => isSame(now, { data: claim, header, names }));
    const own = await findOwn(queue, device);
    return own !== undefined && own.formatted === undefined;
  });
  const { sectorBytes } = taken.limits;
  const layout = { dataOffsetBytes: luksHeaderBytes, headerBytes: markPlaces.header, sectorBytes };
  await step('luks/format', () =>
    programs.cryptsetup(() => formatNew(devicePath, { ...layout, uuid, label: keyId }, keys.current)),
  );
  await requireProgress(queue, handle, devicePath, (now) => now.data === claim && now.names?.uuid === uuid);
  // At each moment one of them is there.
  await step('luks/mark-header', () => changeMark(queue, devicePath, 'header', claim));
  await step('luks/unmark', () => changeMark(queue, devicePath, 'data', undefined));
  return work;
}

/** The header is there: it keeps its keys, and only the filesystem is made again. */
async function claimFormatted(
  { queue }: Parts,
  { handle, lower: { devicePath } }: FirstUse,
  taken: TakenDisk<Own>,
  names: HeaderNames,
): Promise<Work> {
  const claim = randomUUID();
  const { header } = taken.own ?? blank;
  await requireProgress(queue, handle, devicePath, (now) => isSame(now, { data: undefined, header, names }));
  await step('luks/mark-header', () => writeMark(queue, taken.device, 'header', claim));
  await taken.yieldToProgram(async (device) => {
    await requireProgress(queue, handle, devicePath, (now) => isSame(now, { data: undefined, header: claim, names }));
    return (await findOwn(queue, device))?.formatted !== undefined;
  });
  return { claim, uuid: names.uuid, keyId: keyIdIn(names.label) };
}

async function changeMark(
  queue: DiskQueue,
  devicePath: string,
  place: 'data' | 'header',
  claim: string | undefined,
): Promise<void> {
  await using device = await openForMarks(queue, devicePath);
  await writeMark(queue, device, place, claim);
}

/** The part of the work that was done, if nothing else has been written to the disk since; undefined: none can be shown. */
async function findOwn(queue: DiskQueue, device: Descriptor): Promise<Own | undefined> {
  const progress = await progressOf(queue, device);
  const own = ownIn(progress);
  if (own === undefined) return undefined;
  const front = await readAtMost(queue, device, { offsetBytes: 0, lengthBytes: bothCopiesBytes });
  if (!isHeaderAlone(front)) return undefined;
  const content = await device.during((path) => probeContent(queue, path));
  const hasSignature = content.kind === 'other' && content.type === 'crypto_LUKS';
  // There may be ciphertext of a filesystem that was being made: noise.
  if (own === 'formatted') return hasSignature ? { ...progress, formatted: progress.names } : undefined;
  // Keys that were being written lie before the mark, and are noise as well.
  const behind = BigInt(markPlaces.data + markBytes);
  const isBlankBehind = (await findScatteredData(queue, device, behind)) === undefined;
  if (!isBlankBehind || !(hasSignature || content.kind === 'blank')) return undefined;
  return { ...progress, formatted: undefined };
}

function cannotBeEncrypted(handle: VolumeHandle, path: string, reasons: readonly string[]): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${handle}: ${path} cannot be encrypted: ${reasons.join('; ')}. Only a blank disk is. To use its data as it is, leave encryption out; else wipe it. Nothing was changed.`,
  );
}

function blankAndReadonly(handle: VolumeHandle, path: string): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${handle}: ${path} has no finished encryption, and is wanted for reading only: none is made. Name the right disk, or use it once for writing. Nothing was changed.`,
  );
}
