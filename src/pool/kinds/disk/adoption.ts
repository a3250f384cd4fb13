import { stat } from 'node:fs/promises';
import { type Content, probeContent } from '../../../kernel/block/blkid.ts';
import { limitsOfDevice, openDeviceAlone } from '../../../kernel/block/block.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { deviceNumber, sameDevice } from '../../../kernel/device.ts';
import { DataLoss, FailedPrecondition, InvalidArgument, NotFound } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Adoptable, Adoption } from '../../backend.ts';
import { factsOf, whoHasItOpen } from '../../location/disk/candidate.ts';
import { type FoundDisk, requireStill } from '../../location/disk/found-disk.ts';
import { whyNotFree } from '../../location/disk/free-disk.ts';
import { contentOf, whyNotWhole } from './adoptable-content.ts';
import type { FilesystemName } from './label/note-file.ts';
import type { NoteLabel } from './label/note-label.ts';
import { storedRecord } from './label/payload.ts';
import type { MappedParts } from './mapped.ts';
import { newObjectName } from './names.ts';
import { changeObject, volumeOf } from './objects.ts';

export interface DiskAdoptionParts {
  readonly poolName: string;
  readonly queue: DiskQueue;
  readonly found: FoundDisk;
  readonly label: NoteLabel;
  readonly mapped: MappedParts;
  readonly sectorBytes: number;
}

/** The disk and its content, while no other program has it. */
interface SeenDisk {
  readonly adoptable: Adoptable;
  readonly filesystem: FilesystemName | undefined;
}

/** The content of a foreign disk or partition becomes the pool's volume, as it is: nothing is written to it. */
export class DiskAdoption implements Adoption {
  readonly #parts: DiskAdoptionParts;

  constructor(parts: DiskAdoptionParts) {
    this.#parts = parts;
  }

  examine(path: string): Promise<Adoptable> {
    return this.#whileAlone(path, async ({ adoptable }) => adoptable);
  }

  async adopt({ identity, path }: Adoptable, record: VolumeRecord): Promise<void> {
    const { found, label } = this.#parts;
    await this.#whileAlone(path, async ({ adoptable, filesystem }) => {
      if (adoptable.identity !== identity) {
        throw new FailedPrecondition(`${path} holds something else than a moment ago. Try again.`);
      }
      const { payload } = label;
      const sizeBytes = record.sizeBytes;
      await step('adopt/move', () =>
        label.adopt(
          {
            ...payload,
            disk: { name: found.name ?? '', sizeBytes },
            data: { offsetBytes: 0n, lengthBytes: sizeBytes },
            object: { name: newObjectName(record.id), state: 'volume', record: storedRecord(record) },
          },
          filesystem,
        ),
      );
    });
  }

  async release({ id }: VolumeRecord, path: string): Promise<undefined> {
    const { label, mapped, queue } = this.#parts;
    await this.#requireOwnDisk(path);
    const object = volumeOf(label.payload, id);
    if (object === undefined) throw new DataLoss(`volume ${id} is not on its disk any more.`);
    if (!(await mapped.remove(queue, mapped.data(object.name)))) {
      throw new FailedPrecondition(`volume ${id} is in use (see lsblk): stop the workload first.`);
    }
    await step('release/move', () => changeObject(label, object.name, 'volume', () => undefined));
    return undefined;
  }

  /** It is done by one write: nothing of it is ever left half done. */
  async reconcile(): Promise<readonly VolumeId[]> {
    return [];
  }

  /** Looks at the disk, and holds it for the time of `work`. */
  async #whileAlone<T>(path: string, work: (seen: SeenDisk) => Promise<T>): Promise<T> {
    const { found, label, queue, sectorBytes } = this.#parts;
    await this.#requireOwnDisk(path);
    const refuse = (reasons: readonly string[]) =>
      new FailedPrecondition(`${path} cannot be adopted: ${reasons.join('; ')}.`);
    if (label.payload.object !== undefined) throw refuse(['it is a volume already, or was one and is wiped']);
    const partitions = await whyNotWhole(queue, found);
    if (partitions !== undefined) throw refuse([partitions]);
    const reasons = whyNotFree(await factsOf(queue, found, undefined));
    if (reasons.length > 0) throw refuse(reasons);
    await using device = await openDeviceAlone(queue, found.devicePath);
    if (device === undefined) throw refuse(['it is in use (see lsblk): stop the workload, and unmount it']);
    await requireStill(queue, found, device);
    const users = await whoHasItOpen(found);
    if (users.length > 0) throw refuse(users);
    const other = await label.otherNoteOf(found.name ?? '');
    if (other !== undefined) throw refuse([`it is the volume of another pool (${other})`]);
    const content = await device.during((devicePath) => probeContent(queue, devicePath));
    const volumeContent = contentOf(content);
    if (typeof volumeContent === 'string') throw refuse([volumeContent]);
    const filesystem = filesystemOf(content);
    const { sizeBytes } = limitsOfDevice(device);
    return await work({
      adoptable: {
        ...{ path, sizeBytes, usedBytes: sizeBytes, content: volumeContent },
        identity: JSON.stringify([found.name, `${sizeBytes}`, filesystem]),
        provisioning: 'thick',
        blockSizeBytes: sectorBytes,
      },
      filesystem,
    });
  }

  /** @throws InvalidArgument, NotFound */
  async #requireOwnDisk(path: string): Promise<void> {
    const { found, poolName, queue } = this.#parts;
    try {
      const { rdev } = await queue.run(() => stat(path, { bigint: true }));
      if (sameDevice(deviceNumber(rdev), found.device)) return;
    } catch (error) {
      if (!isErrno(error, 'ENOENT', 'ENOTDIR')) throw error;
      throw new NotFound(`There is no ${path} on this node.`);
    }
    throw new InvalidArgument(
      `${path} is not the disk of pool ${poolName}, which can adopt that alone: ${found.path}.`,
    );
  }
}

function filesystemOf(content: Content): FilesystemName | undefined {
  if (content.kind !== 'filesystem' || content.uuid === undefined) return undefined;
  return { type: content.type, uuid: content.uuid };
}
