import { dropCache } from '../../../../kernel/block/block.ts';
import type { Descriptor } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { readAt, readWhatCan, syncFile, writeAt } from '../../../../kernel/file/file.ts';
import { DataLoss, InternalError } from '../../../../volume/errors.ts';
import { DiskLost } from '../../../quarantine.ts';
import { formatOf, type Payload, parsePayload, serializePayload } from './payload.ts';
import { encodeSlot, probeAt, readSlots, type Slot, slotBytes, slotCount, stampBytes } from './slots.ts';

const labelBytes = slotBytes * slotCount;

/** The content of a label. */
export interface ReadLabel {
  readonly slot: Slot;
  readonly payload: Payload;
  /** Both of its copies say so. */
  readonly isMirrored: boolean;
}

/**
 * Reads the content of a label from its bytes. It is never written over where it cannot be read.
 * @param bytes its beginning @throws DataLoss
 */
export function readPayload(bytes: Buffer, poolName: string, path: string): ReadLabel {
  const found = readSlots(bytes);
  if (found.kind === 'newer') {
    throw new DataLoss(
      `pool ${poolName}: the label of ${path} was written by a newer version of Holdfast. Run that one. Nothing was changed.`,
    );
  }
  if (found.kind === 'none') {
    throw new DataLoss(
      `pool ${poolName}: the label of ${path} cannot be read: both of its copies are damaged. The volume's data is left as it is. Nothing was changed.`,
    );
  }
  const { isMirrored, slot } = found;
  return { slot, payload: parsePayload(slot.text, `in the label of ${path}`), isMirrored };
}

/** Knowledge of this process about a label, kept over a quarantine of its pool: another node may have the disk in the meantime. */
export interface LabelMemory {
  /**
   * Contents that this driver itself accounts for: the one found first, or written last, and after failed writes also
   * those of the writes.
   */
  own: readonly Slot[];
  /** Aborted until the driver restarts: a foreign label is neither believed nor written over. */
  readonly lost: AbortController;
}

const memories = new Map<string, LabelMemory>();

export function newMemory(): LabelMemory {
  return { own: [], lost: new AbortController() };
}

/** The memory of a pool that this process has had open. */
export function memoryOf(poolId: string): LabelMemory | undefined {
  return memories.get(poolId);
}

/** The pool is open from now on: until then another node may have it. */
export function keepMemory(poolId: string, memory: LabelMemory): void {
  memories.set(poolId, memory);
}

/** The pool was closed in order: the next driver that opens the disk may change the label. */
export function forgetMemory(poolId: string): void {
  memories.delete(poolId);
}

export interface LabelPlace {
  readonly queue: DiskQueue;
  readonly poolName: string;
  readonly poolId: string;
  /** The path of the disk, for people. */
  readonly path: string;
  /** The device of the label, open for writing. */
  readonly device: Descriptor;
  readonly memory: LabelMemory;
}

/** The two copies of a label, and what this driver has written there. Not more than one call at a time. */
export class LabelCopies {
  readonly #place: LabelPlace;
  /** The content that was read or written last. */
  #current: ReadLabel | undefined;
  /** Counts the beginnings and ends of writes. */
  #writes = 0;

  constructor(place: LabelPlace) {
    this.#place = place;
  }

  get known(): ReadLabel {
    if (this.#current !== undefined) return this.#current;
    throw new InternalError(`pool ${this.#place.poolName}: its label was not read.`);
  }

  /** Aborted, with a DiskLost, once another node or program is known to have written it. */
  get lost(): AbortSignal {
    return this.#place.memory.lost.signal;
  }

  /** Reads the stored content, past every cache. @throws DiskLost if another node or program has written it */
  async read(): Promise<void> {
    this.#current = await this.#readOwn(this.#place.queue);
  }

  /** The same beside other calls, whose writes it must not take for those of another node. Memory stays as it is. */
  async check(queue: DiskQueue): Promise<void> {
    const before = this.#writes;
    await this.#readOwn(queue, () => this.#writes === before);
  }

  /** Where the pool's health is tried; nothing if the label is not its own. @throws DiskLost */
  async writeStamp(queue: DiskQueue, text: string): Promise<void> {
    const { device } = this.#place;
    await this.check(queue);
    const block = Buffer.alloc(stampBytes);
    block.write(text);
    await writeAt(queue, device, block, probeAt);
    await syncFile(queue, device);
  }

  async #readOwn(queue: DiskQueue, isUndisturbed = () => true): Promise<ReadLabel> {
    const { device, memory, path, poolId, poolName } = this.#place;
    this.lost.throwIfAborted();
    await dropCache(queue, device);
    const bytes = await readWhatCan(queue, device, { lengthBytes: labelBytes, offsetBytes: 0 });
    await syncFile(queue, device);
    const isKnown = memory.own.length > 0;
    let read: ReadLabel;
    try {
      read = readPayload(bytes, poolName, path);
    } catch (error) {
      if (!isKnown || !(error instanceof DataLoss) || !isUndisturbed()) throw error;
      // A disk that cannot be read now is a disk fault, and no foreign write.
      await readAt(queue, device, { lengthBytes: labelBytes, offsetBytes: 0 });
      throw this.#lose(error.message);
    }
    if (!isKnown) {
      if (read.payload.poolId !== poolId) {
        throw new DataLoss(
          `pool ${poolName}: the label of ${path} is that of pool ${read.payload.poolId}, and its partition table that of ${poolId}. Nothing was changed.`,
        );
      }
      memory.own = [read.slot];
    } else if (isUndisturbed() && !memory.own.some((own) => isOwn(read.slot, own))) {
      throw this.#lose(
        `pool ${poolName}: another program has written the label of ${path}, e.g. on another node that has the disk, too. Nothing was changed. Stop one of them, then restart the driver.`,
      );
    }
    return read;
  }

  #lose(message: string): DiskLost {
    const error = new DiskLost(message);
    this.#place.memory.lost.abort(error);
    return error;
  }

  /** To the copy that was not written last. */
  async write(payload: Payload, isMirrored: boolean): Promise<void> {
    const { device, memory, queue } = this.#place;
    const { slot } = this.known;
    const text = serializePayload(payload);
    const next = { index: (slot.index + 1) % slotCount, sequence: slot.sequence + 1n, text };
    const bytes = encodeSlot(next.sequence, text, formatOf(payload));
    memory.own = [...memory.own, next];
    this.#writes++;
    try {
      await writeAt(queue, device, bytes, BigInt(next.index * slotBytes));
      await syncFile(queue, device);
    } finally {
      this.#writes++;
    }
    this.#current = { slot: next, payload, isMirrored };
    memory.own = [next];
  }
}

/** An older copy with the same text counts where the newer one is damaged. Each write has a higher sequence. */
function isOwn(read: Slot, own: Slot): boolean {
  return read.text === own.text && read.sequence <= own.sequence;
}
