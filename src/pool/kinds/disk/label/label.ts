import { constants } from 'node:fs';
import { dropCache } from '../../../../kernel/block/block.ts';
import { mappedPath } from '../../../../kernel/block/device-mapper.ts';
import { type Descriptor, openFile } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { sameDevice } from '../../../../kernel/device.ts';
import { readWhatCan } from '../../../../kernel/file/file.ts';
import type { LocationOptions } from '../../../location/location.ts';
import { takeLock } from '../../../location/lock.ts';
import type { MappedParts } from '../mapped.ts';
import { refuseRunElsewhere, stampText } from '../other-node.ts';
import type { DiskLabel } from './disk-label.ts';
import { forgetMemory, keepMemory, LabelCopies, memoryOf, newMemory, readPayload } from './label-copies.ts';
import type { LabelledDisk } from './labeller.ts';
import { layoutOf } from './layout.ts';
import type { Payload } from './payload.ts';
import { probeAt, stampBytes } from './slots.ts';
import { LabelTurns } from './turns.ts';

/** The label that was read with the disk: it may be older than what its device has. */
export function payloadIn({ found, front, shape }: LabelledDisk, poolName: string): Payload {
  const { offsetBytes } = layoutOf(shape).label;
  return readPayload(front.subarray(Number(offsetBytes)), poolName, found.path).payload;
}

export type LabelOptions = Pick<LocationOptions, 'queue' | 'lockTimeoutMs' | 'log' | 'poolName' | 'stopping'>;

/**
 * The label of a pool's disk, locked: the pool's id, and the disk's content. It is written and read through a separate
 * device, so that no program takes a change of it for a change of the partition table.
 */
export class Label implements DiskLabel {
  readonly obstacle = undefined;
  readonly #lock: Descriptor;
  readonly #device: Descriptor;
  readonly #copies: LabelCopies;
  readonly #turns = new LabelTurns(() => this.#copies.read());
  #probes = 0;

  private constructor(copies: LabelCopies, lock: Descriptor, device: Descriptor) {
    this.#copies = copies;
    this.#lock = lock;
    this.#device = device;
  }

  /**
   * @param isKnown this node has had it before
   * @throws FailedPrecondition if another driver has it, also on another node, DataLoss if it cannot be read, or was lost before
   */
  static async open(
    options: LabelOptions,
    parts: MappedParts,
    { found, shape }: LabelledDisk,
    isKnown: boolean,
  ): Promise<Label> {
    const { queue } = options;
    const memory = memoryOf(parts.poolId) ?? newMemory();
    memory.lost.signal.throwIfAborted();
    for (;;) {
      const part = layoutOf(shape).label;
      const { descriptor, device } = await parts.open(queue, parts.label, part);
      await using _open = descriptor;
      const lock = await takeLock(options, mappedPath(device));
      try {
        // The driver that had it until now may have removed the device, and its number is another's.
        if (sameDevice(parts.find(parts.label)?.device, device)) {
          const opened = await openFile(queue, lock, constants.O_RDWR);
          const { poolId, poolName } = parts;
          const copies = new LabelCopies({ queue, poolName, poolId, path: found.path, device: opened, memory });
          const label = new Label(copies, lock, opened);
          try {
            await label.refresh();
            if (!isKnown) {
              const { stopping } = options;
              const read = () => label.#readStamp(queue);
              await refuseRunElsewhere({ poolName, path: found.path, stopping, read });
            }
            await label.#mirror();
            keepMemory(poolId, memory);
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
    return this.#copies.known.payload;
  }

  get lost(): AbortSignal {
    return this.#copies.lost;
  }

  refresh(): Promise<void> {
    return this.#turns.inTurn(() => this.#turns.read());
  }

  settled(): Promise<Payload> {
    return this.#turns.inTurn(async () => {
      await this.#turns.settle();
      return this.payload;
    });
  }

  change(edit: (payload: Payload) => Payload): Promise<void> {
    return this.#turns.inTurn(async () => {
      // Another node that sees the disk may have written it: what that did is not to be undone.
      await this.#turns.read();
      const { payload: before } = this.#copies.known;
      const payload = edit(before);
      if (payload === before) return;
      await this.#turns.write(async () => {
        await this.#copies.write(payload, false);
        await this.#copies.write(payload, true);
      });
    });
  }

  /** Something else each time. @throws DiskLost if another node or program has written the label */
  probe(queue: DiskQueue): Promise<void> {
    return this.#copies.writeStamp(queue, stampText(++this.#probes, new Date()));
  }

  /** Another node that gets the disk need not watch whether the stamp moves. @throws DiskLost if it has the disk already */
  async leave(queue: DiskQueue): Promise<void> {
    forgetMemory(this.payload.poolId);
    await this.#copies.writeStamp(queue, '');
  }

  async #readStamp(queue: DiskQueue): Promise<string> {
    await dropCache(queue, this.#device);
    const block = await readWhatCan(queue, this.#device, { lengthBytes: stampBytes, offsetBytes: Number(probeAt) });
    return block.toString('latin1');
  }

  /** From now on another driver may have it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#device[Symbol.asyncDispose]();
    await this.#lock[Symbol.asyncDispose]();
  }

  /** After a crash between the two writes of a change, or where one copy is damaged: there are two again. */
  #mirror(): Promise<void> {
    return this.#turns.inTurn(async () => {
      const { isMirrored, payload } = this.#copies.known;
      if (!isMirrored) await this.#copies.write(payload, true);
    });
  }
}
