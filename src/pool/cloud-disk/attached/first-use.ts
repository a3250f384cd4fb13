import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { format } from '../../../command/mkfs.ts';
import { parseMkfsOptions } from '../../../command/mkfs-options.ts';
import { giveNewIdentity } from '../../../filesystems/identity.ts';
import { probeContent } from '../../../kernel/block/blkid.ts';
import { limitsOfDevice } from '../../../kernel/block/block.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { DirectorySync, readAtMost, readIfThere } from '../../../kernel/file/file.ts';
import { liveFilesystem } from '../../../kernel/mount/mounted-device.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import type { FilesystemType } from '../../../volume/filesystem.ts';
import { step } from '../../../volume/step.ts';
import type { DeviceAttachment } from '../../attached-device.ts';
import { replaceFile } from '../../records/durable-file.ts';
import { shortId } from '../cloud.ts';

export interface FirstUse {
  readonly queue: DiskQueue;
  /** For marks. */
  readonly directory: string;
  readonly handle: string;
  readonly diskId: string;
  readonly fsType: FilesystemType;
  readonly mkfsOptions: string;
  /** Made from a snapshot: it has a filesystem, whose UUID another volume has, too. */
  readonly isRestored: boolean;
}

/** Zeros of this length at both ends, and no signature anywhere: it is blank. */
const endBytes = 1 << 20;

/**
 * Makes the filesystem of a volume that no other node ever had, if its device is blank; one that was made from a snapshot gets a
 * new UUID. A mark is durable before that begins: what an mkfs that was cut short has left is known by it, and is written over.
 * It is done once: a device that is blank after that has lost its data.
 */
export async function prepareFirstUse(use: FirstUse, attachment: DeviceAttachment): Promise<void> {
  const { directory, diskId, fsType, isRestored, queue } = use;
  // It is mounted already.
  if (liveFilesystem(attachment.devicePath) !== undefined) return;
  const mark = new FirstUseMark(queue, directory, diskId);
  const state = await mark.read();
  if (state === 'done') return await refuseBlank(use, attachment);
  const { sectorBytes, sizeBytes } = limitsOfDevice(attachment.descriptor);
  const image = { path: attachment.devicePath, fsType, blockSizeBytes: sectorBytes };
  if (isRestored) {
    if (state === undefined) await step('cloud/mark', () => mark.write('begun'));
    await step('cloud/identity', () => giveNewIdentity(queue, image));
  } else {
    if (state === undefined && !(await isBlank(queue, attachment))) return;
    const extraArguments = parseMkfsOptions(fsType, use.mkfsOptions);
    if (state === undefined) await step('cloud/mark', () => mark.write('begun'));
    await step('cloud/format', () => queue.watch(() => format({ ...image, sizeBytes, extraArguments })));
  }
  await step('cloud/unmark', () => mark.write('done'));
}

/** @throws FailedPrecondition for a blank device that may not be formatted here */
export async function refuseBlank(use: FirstUse, attachment: DeviceAttachment): Promise<void> {
  if (!(await isBlank(use.queue, attachment))) return;
  throw new FailedPrecondition(
    `volume ${use.handle}: ${shortId(use.diskId)} is blank, and was published to a node before: it is not formatted. If it never held anything, delete its claim and make it again, or run mkfs.${use.fsType} on it; otherwise its data is lost.`,
  );
}

async function isBlank(queue: DiskQueue, { descriptor, devicePath }: DeviceAttachment): Promise<boolean> {
  if ((await probeContent(queue, devicePath)).kind !== 'blank') return false;
  const { sizeBytes } = limitsOfDevice(descriptor);
  const end = Number(sizeBytes) - endBytes;
  for (const offsetBytes of [0, Math.max(0, end)]) {
    const bytes = await readAtMost(queue, descriptor, { offsetBytes, lengthBytes: endBytes });
    if (bytes.some((byte) => byte !== 0)) return false;
  }
  return true;
}

type MarkState = 'begun' | 'done';

/** The progress of this node with the filesystem of a disk that no other node ever had. */
class FirstUseMark {
  readonly #queue: DiskQueue;
  readonly #path: string;
  readonly #diskId: string;

  constructor(queue: DiskQueue, directory: string, diskId: string) {
    this.#queue = queue;
    this.#diskId = diskId;
    this.#path = join(directory, `${createHash('sha256').update(diskId).digest('hex').slice(0, 32)}.first-use`);
  }

  async read(): Promise<MarkState | undefined> {
    const text = await readIfThere(this.#queue, this.#path);
    return (['begun', 'done'] as const).find((state) => text === this.#text(state));
  }

  async write(state: MarkState): Promise<void> {
    await this.#queue.run(() => mkdir(dirname(this.#path), { recursive: true, mode: 0o700 }));
    await replaceFile(this.#queue, new DirectorySync(), this.#path, this.#text(state));
  }

  #text(state: MarkState): string {
    return `${this.#diskId} ${state}\n`;
  }
}
