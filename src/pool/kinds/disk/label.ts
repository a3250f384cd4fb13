import { constants } from 'node:fs';
import { dropCache } from '../../../kernel/block/block.ts';
import { sameDevice } from '../../../kernel/block/device.ts';
import { mappedPath } from '../../../kernel/block/device-mapper.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { readWhatCan, syncFile, writeAt } from '../../../kernel/file/file.ts';
import { DataLoss, InternalError } from '../../../volume/errors.ts';
import type { LocationOptions } from '../../location/location.ts';
import { takeLock } from '../../location/lock.ts';
import type { DiskLabel } from './disk-label.ts';
import { layoutOf } from './label/layout.ts';
import { type Payload, parsePayload, serializePayload } from './label/payload.ts';
import { encodeSlot, probeAt, readSlots, type Slot, slotBytes, slotCount } from './label/slots.ts';
import type { LabelledDisk } from './labeller.ts';
import type { MappedParts } from './mapped.ts';

const labelBytes = slotBytes * slotCount;

/** What a label says. */
export interface ReadLabel {
  readonly slot: Slot;
  readonly payload: Payload;
  /** Both of its copies say so. */
  readonly isMirrored: boolean;
}

/**
 * What a label says, from its bytes. It is never written over where it cannot be read.
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

/** The label that was read with the disk: it may be older than what its device has. */
export function payloadIn({ found, front, shape }: LabelledDisk, poolName: string): Payload {
  const { offsetBytes } = layoutOf(shape).label;
  return readPayload(front.subarray(Number(offsetBytes)), poolName, found.path).payload;
}

export type LabelOptions = Pick<LocationOptions, 'queue' | 'lockTimeoutMs' | 'log' | 'poolName' | 'stopping'>;

/**
 * The label of a pool's disk, locked: which pool it is, and what the disk has in it. It is written and read through a device
 * of its own, so that nobody takes a change of it for a change of the partition table.
 */
export class Label implements DiskLabel {
  readonly obstacle = undefined;
  readonly #parts: MappedParts;
  readonly #path: string;
  readonly #poolName: string;
  readonly #queue: DiskQueue;
  readonly #lock: Descriptor;
  readonly #device: Descriptor;
  /** As it was read or written last, and is for certain unless `#isDoubtful`. */
  #current: ReadLabel | undefined;
  /** A write has failed: either is on the disk. */
  #isDoubtful = true;
  /** Changes come one after another: each begins with what the one before it has left. */
  #last: Promise<unknown> = Promise.resolve();
  #probes = 0;

  private constructor(parts: MappedParts, path: string, options: LabelOptions, lock: Descriptor, device: Descriptor) {
    this.#parts = parts;
    this.#path = path;
    this.#poolName = options.poolName;
    this.#queue = options.queue;
    this.#lock = lock;
    this.#device = device;
  }

  /** @throws FailedPrecondition if another driver has it, DataLoss if it cannot be read */
  static async open(options: LabelOptions, parts: MappedParts, { found, shape }: LabelledDisk): Promise<Label> {
    const { queue } = options;
    for (;;) {
      const part = layoutOf(shape).label;
      const { descriptor, device } = await parts.open(queue, parts.label, part);
      await using _open = descriptor;
      const lock = await takeLock(options, mappedPath(device));
      try {
        // The driver that had it until now may have removed the device, and its number is another's.
        if (sameDevice(parts.find(parts.label)?.device, device)) {
          const label = new Label(parts, found.path, options, lock, await openFile(queue, lock, constants.O_RDWR));
          try {
            await label.refresh();
            await label.#mirror();
            return label;
          } catch (error) {
            await label.#device[Symbol.asyncDispose]();
            throw error;
          }
        }
      } catch (error) {
        await lock[Symbol.asyncDispose]();
        throw error;
      }
      await lock[Symbol.asyncDispose]();
    }
  }

  get payload(): Payload {
    return this.#known.payload;
  }

  refresh(): Promise<void> {
    return this.#afterLast(() => this.#read());
  }

  change(edit: (payload: Payload) => Payload): Promise<void> {
    return this.#afterLast(async () => {
      await this.#requireUnchanged();
      const { payload: before } = this.#known;
      const payload = edit(before);
      if (payload === before) return;
      await this.#write(payload, false);
      await this.#write(payload, true);
    });
  }

  /** Another node that sees the disk may have written it: what that did is not to be undone. @throws DataLoss */
  async #requireUnchanged(): Promise<void> {
    const expected = this.#isDoubtful ? undefined : this.#current?.slot;
    await this.#read();
    const { slot } = this.#known;
    if (expected === undefined || (slot.sequence === expected.sequence && slot.text === expected.text)) return;
    this.#isDoubtful = true;
    throw new DataLoss(
      `pool ${this.#poolName}: somebody else has written the label of ${this.#path}, another node that has the disk, too, say. Nothing was changed. Stop one of them, then restart the driver.`,
    );
  }

  /** Something else each time, and not from memory. */
  async probe(queue: DiskQueue): Promise<void> {
    const block = Buffer.alloc(4096);
    block.write(`holdfast health ${++this.#probes} ${new Date().toISOString()}\n`);
    await writeAt(queue, this.#device, block, probeAt);
    await syncFile(queue, this.#device);
  }

  /** From now on another driver may have it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#device[Symbol.asyncDispose]();
    await this.#lock[Symbol.asyncDispose]();
  }

  /** After a crash between the two writes of a change, or where one copy is damaged: there are two again. */
  #mirror(): Promise<void> {
    return this.#afterLast(async () => {
      const { isMirrored, payload } = this.#known;
      if (!isMirrored) await this.#write(payload, true);
    });
  }

  /** To the copy that was not written last. */
  async #write(payload: Payload, isMirrored: boolean): Promise<void> {
    const { slot } = this.#known;
    const text = serializePayload(payload);
    const next = { index: (slot.index + 1) % slotCount, sequence: slot.sequence + 1n, text };
    const bytes = encodeSlot(next.sequence, text);
    this.#isDoubtful = true;
    await writeAt(this.#queue, this.#device, bytes, BigInt(next.index * slotBytes));
    await syncFile(this.#queue, this.#device);
    this.#current = { slot: next, payload, isMirrored };
    this.#isDoubtful = false;
  }

  async #read(): Promise<void> {
    this.#isDoubtful = true;
    await dropCache(this.#queue, this.#device);
    const bytes = await readWhatCan(this.#queue, this.#device, { lengthBytes: labelBytes, offsetBytes: 0 });
    await syncFile(this.#queue, this.#device);
    const current = readPayload(bytes, this.#poolName, this.#path);
    if (current.payload.poolId !== this.#parts.poolId) {
      throw new DataLoss(
        `pool ${this.#poolName}: the label of ${this.#path} is that of pool ${current.payload.poolId}, and its partition table that of ${this.#parts.poolId}. Nothing was changed.`,
      );
    }
    this.#current = current;
    this.#isDoubtful = false;
  }

  get #known(): ReadLabel {
    if (this.#current !== undefined) return this.#current;
    throw new InternalError(`pool ${this.#poolName}: its label was not read.`);
  }

  #afterLast<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}
