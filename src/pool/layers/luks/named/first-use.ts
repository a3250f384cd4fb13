import { constants } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type KeyMaterial, nameLuks } from '../../../../command/cryptsetup.ts';
import { probeContent } from '../../../../kernel/block/blkid.ts';
import { sizeOfDevice } from '../../../../kernel/block/block.ts';
import { mappedOver } from '../../../../kernel/block/device-mapper.ts';
import { type Descriptor, openFile } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { openDirect, readDirect } from '../../../../kernel/file/direct.ts';
import { readAtMost, syncFile, writeAt } from '../../../../kernel/file/file.ts';
import type { VolumeContent } from '../../../../volume/capability.ts';
import { luksHeaderBytes, newKeyId } from '../../../../volume/encryption.ts';
import { FailedPrecondition, Unavailable } from '../../../../volume/errors.ts';
import { fileNameOf, type VolumeHandle } from '../../../../volume/handle.ts';
import { mapperName } from '../../../../volume/mapper-name.ts';
import { step } from '../../../../volume/step.ts';
import { beginningBytes, isZeros } from '../../../location/content.ts';
import { locateDevice } from '../../../location/disk/found-disk.ts';
import { takeDisk } from '../../../location/disk/take-disk.ts';
import type { PoolLog } from '../../../log.ts';
import { settlePausesMs } from '../../../mapped-device.ts';
import type { AttachedDevice } from '../../../pool.ts';
import { formatNew, makeFilesystem } from '../format.ts';
import { bothCopiesBytes, labelIn } from '../header.ts';
import type { LuksParts } from '../luks-layer.ts';
import { closeMapper, draftName, isDraftOf, withMapper } from '../mapper.ts';

/*
 * The encryption of a disk that a PersistentVolume names is made at its first stage, on the node. No record says how far that
 * came, and another node may finish it, so the disk says it: first a mark where the data will be, which cryptsetup leaves
 * alone; then a header with a label that no finished one has; at last the header gets the name of its key. Nothing is mounted
 * or shown before that.
 */

type Parts = Pick<LuksParts, 'programs' | 'queue'>;

interface FirstUse {
  readonly handle: VolumeHandle;
  readonly content: VolumeContent;
  readonly lower: AttachedDevice;
  readonly key: KeyMaterial;
  readonly log: PoolLog;
}

export const unfinishedLabel = 'holdfast-unfinished';
/** A whole block of any disk. */
export const mark = Buffer.alloc(4096);
mark.write('Holdfast makes the encryption of this disk. It was blank before, and nothing of it is in use.\n');
const ownKeyId = /^key-[0-9a-f]{16}$/;
const headerBytes = BigInt(luksHeaderBytes);
/** Room for data beside the header. */
const minBytes = 2n * headerBytes;
/** In the names of mappers. That of a pool is another. */
const draftTag = 'disk';

/**
 * Makes the header and the filesystem of a disk that is blank, or whose header was never finished. One that has a header keeps
 * it, also if another program made it.
 * @returns the name of the key, as far as the header tells it
 * @throws FailedPrecondition for a disk with anything else
 */
export async function prepareDisk(parts: Parts, use: FirstUse): Promise<{ readonly keyId: string | undefined }> {
  const label = await labelOn(parts.queue, use.lower.devicePath);
  if (label !== undefined && label !== unfinishedLabel) {
    return { keyId: ownKeyId.test(label) ? label : undefined };
  }
  const keyId = newKeyId();
  await encryptDisk(parts, use, keyId);
  return { keyId };
}

/** Past the page cache: another node may have written since this one read. */
async function labelOn(queue: DiskQueue, devicePath: string): Promise<string | undefined> {
  await using device = await openDirect(queue, devicePath);
  return labelIn(await readDirect(queue, device, { lengthBytes: bothCopiesBytes, offsetBytes: 0n }));
}

async function encryptDisk(parts: Parts, use: FirstUse, keyId: string): Promise<void> {
  const { programs, queue } = parts;
  const { content, handle, key, log, lower } = use;
  const { devicePath } = lower;
  await closeDrafts(queue, lower);
  await using taken = await takeDisk({
    ...{ queue, log, poolName: handle, isNamed: true, needsNoName: true },
    refusal: (path, reasons) => cannotBeEncrypted(handle, path, reasons),
    locate: () => locateDevice(queue, devicePath, lower.device),
    findOwn: async ({ device }) => ((await isUnfinished(queue, device)) ? true : undefined),
  });
  const { sectorBytes, sizeBytes } = taken.limits;
  if (sizeBytes < minBytes) throw cannotBeEncrypted(handle, devicePath, [`it has ${sizeBytes} bytes only`]);
  await step('luks/mark', () => writeAtData(queue, taken.device, mark));
  await taken.yieldToProgram((device) => isUnfinished(queue, device));
  const header = { label: unfinishedLabel, dataOffsetBytes: luksHeaderBytes, sectorBytes };
  await step('luks/format', () => programs.cryptsetup(() => formatNew(devicePath, header, key)));
  await step('luks/unmark', async () => {
    await using device = await openFile(queue, devicePath, constants.O_RDWR | constants.O_NONBLOCK);
    await writeAtData(queue, device, Buffer.alloc(mark.length));
  });
  if (content.type === 'mount') {
    const data = { content, mkfsArguments: [], blockSizeBytes: sectorBytes, sizeBytes: sizeBytes - headerBytes };
    const draft = { devicePath, key, name: draftName(fileNameOf(handle), draftTag) };
    await withMapper(parts, { id: handle }, draft, (path) =>
      step('create/format', () => makeFilesystem(parts, path, data)),
    );
    await closeDrafts(queue, lower);
  }
  await step('luks/finish', () => programs.cryptsetup(() => nameLuks(devicePath, keyId)));
  log.info({ volume_id: handle, key_id: keyId }, 'the encryption of a blank disk was made');
}

/** Tells the mappers of this work for a volume. */
export function isDraftOfNamed(name: string, handle: VolumeHandle): boolean {
  return isDraftOf(name, draftTag) && name.startsWith(`${mapperName(handle)}-`);
}

/** Mappers of this work that a driver before this one has left, or that udev looks at. */
async function closeDrafts(queue: DiskQueue, { device, devicePath }: AttachedDevice): Promise<void> {
  for (const pauseMs of settlePausesMs) {
    const drafts = (await mappedOver(queue, device)).filter(({ name }) => isDraftOf(name, draftTag));
    if (drafts.length === 0) return;
    for (const draft of drafts) await closeMapper(queue, draft);
    await delay(pauseMs);
  }
  throw new Unavailable(`${devicePath} is still being encrypted: a program has its mapper open. It is tried again.`);
}

/** True if it was blank when this began, and nothing else has been written since. */
async function isUnfinished(queue: DiskQueue, device: Descriptor): Promise<boolean> {
  const front = await readAtMost(queue, device, { offsetBytes: 0, lengthBytes: bothCopiesBytes });
  if (labelIn(front) === unfinishedLabel) return true;
  const marked = await readAtMost(queue, device, { offsetBytes: luksHeaderBytes, lengthBytes: mark.length });
  if (!marked.equals(mark) || !isZeros(front)) return false;
  // Keys that were being written lie between: they are noise.
  const tailAt = Number(sizeOfDevice(device)) - beginningBytes;
  if (!isZeros(await readAtMost(queue, device, { offsetBytes: tailAt, lengthBytes: beginningBytes }))) return false;
  return (await device.during((path) => probeContent(queue, path))).kind === 'blank';
}

async function writeAtData(queue: DiskQueue, device: Descriptor, bytes: Buffer): Promise<void> {
  await writeAt(queue, device, bytes, headerBytes);
  await syncFile(queue, device);
}

function cannotBeEncrypted(handle: VolumeHandle, path: string, reasons: readonly string[]): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${handle}: ${path} cannot be encrypted: ${reasons.join('; ')}. Only a blank disk is. To use its data as it is, leave encryption out; else wipe it. Nothing was changed.`,
  );
}
