import { type FormatRequest, format } from '../../../command/mkfs.ts';
import { CommandError } from '../../../command/run.ts';
import { KernelError } from '../../../kernel/call/errno.ts';
import { InternalError, InvalidArgument } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Clone, NewData, Placed, SizeRange, VolumeDraft } from '../../backend.ts';
import type { TrashRef } from '../../catalog/trash-entry.ts';
import { mountBriefly } from '../../filesystem/brief-mount.ts';
import type { DiskParts } from './disk-backend.ts';
import { newRef } from './disks.ts';
import type { OwnDisk } from './own-disk.ts';
import { hideData, nodeOf, openShown, showData } from './shown.ts';

/** A volume on its way: a disk that is promised to it. */
export class DiskDraft implements VolumeDraft {
  readonly id: VolumeId;
  isCommitted = false;
  readonly #parts: DiskParts;
  readonly #size: SizeRange;
  #own: OwnDisk | undefined;
  #record: VolumeRecord | undefined;

  constructor(parts: DiskParts, id: VolumeId, size: SizeRange) {
    this.#parts = parts;
    this.id = id;
    this.#size = size;
  }

  async begin(): Promise<void> {
    this.#own = await this.#parts.disks.take(this.id, this.#size);
  }

  /** A volume is all of its disk, and has its sectors. */
  get placed(): Placed | undefined {
    const own = this.#own;
    return own && { sizeBytes: own.data.lengthBytes, blockSizeBytes: own.geometry.sectorBytes };
  }

  clone(): Clone {
    throw new InternalError(`volume ${this.id}: disks are not cloned.`);
  }

  async takenBytes(): Promise<bigint> {
    return 0n;
  }

  async make(record: VolumeRecord, data: NewData): Promise<void> {
    const { blockSizeBytes, content, mkfsArguments: extraArguments, sizeBytes } = data;
    if (content.type === 'mount') {
      const { fsType } = content;
      await this.#showing((path) =>
        step('create/format', () => this.#format({ path, fsType, sizeBytes, blockSizeBytes, extraArguments })),
      );
    }
    this.#record = record;
  }

  async complete(): Promise<void> {
    throw new InternalError(`volume ${this.id}: disks are not cloned.`);
  }

  withDevice<T>(_blockSizeBytes: number, work: (devicePath: string) => Promise<T>): Promise<T> {
    return this.#showing(work);
  }

  /** One sector of its label. */
  async commit(): Promise<void> {
    const own = this.#begun();
    const record = this.#record;
    if (record === undefined) throw new InternalError(`volume ${this.id} is not made yet.`);
    this.isCommitted = true;
    await own.write({ state: 'volume', record });
    const { diskId, words } = own;
    await this.#parts.notes.write({ diskId, words, record, isDeleted: false });
  }

  async discard(): Promise<TrashRef | undefined> {
    const own = this.#own;
    if (own === undefined) return undefined;
    const ref = newRef(this.id);
    await own.write({ state: 'draft', id: this.id, ref });
    return ref;
  }

  async #format(request: FormatRequest): Promise<void> {
    const { extraArguments, fsType, path } = request;
    const { programs, queue } = this.#parts;
    try {
      await programs.run(() => format(request));
      if (extraArguments.length > 0) await mountBriefly(queue, fsType, path);
    } catch (error) {
      if (extraArguments.length === 0) throw error;
      if (error instanceof CommandError) throw new InvalidArgument(`mkfsOptions: ${error.message}`);
      if (!(error instanceof KernelError)) throw error;
      throw new InvalidArgument(`mkfsOptions: they make an ${fsType} that this node cannot mount (${error.message}).`);
    }
  }

  async #showing<T>(work: (devicePath: string) => Promise<T>): Promise<T> {
    const own = this.#begun();
    const partition = await showData(own);
    try {
      // Makes the node, where nobody else does, and keeps its name from another disk that is put in meanwhile.
      await using _partition = await openShown(own, partition);
      return await work(nodeOf(partition.name));
    } finally {
      await hideData(own);
    }
  }

  #begun(): OwnDisk {
    if (this.#own === undefined) throw new InternalError(`volume ${this.id} has no disk yet.`);
    return this.#own;
  }
}
