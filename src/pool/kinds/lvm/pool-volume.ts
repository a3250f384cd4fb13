import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { z } from 'zod';
import { mappedPath } from '../../../kernel/block/device-mapper.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { DirectorySync, readAt, syncFile, writeAt } from '../../../kernel/file/file.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { parseStored } from '../../../volume/stored-json.ts';
import type { LocationOptions } from '../../location/location.ts';
import { takeLock } from '../../location/lock.ts';
import { markerPathOf, readMarker, remember } from '../../records/pool-file.ts';
import type { GroupState } from './group/group-state.ts';
import type { VolumeGroup } from './group/volume-group.ts';
import { openLv } from './lv-device.ts';
import { poolLvName } from './names.ts';
import { documentTags, readDocument, stateTag } from './tags.ts';

const identityName = 'identity';

/** Its first block is for trying its health, and the second for the note that is needed after a kill. */
const blockBytes = 4096;

/** True if the pool's own logical volume, which is one extent, has a second block. */
export function hasRoomForNote(extentBytes: bigint | undefined): boolean {
  return extentBytes === undefined || extentBytes >= 2n * BigInt(blockBytes);
}

const identityDocument = z.strictObject({
  format: z.literal(1),
  id: z.uuid(),
  createdAt: z.iso.datetime(),
});

export interface PoolVolumeOptions extends Pick<LocationOptions, 'queue' | 'lockTimeoutMs' | 'poolName' | 'stopping'> {
  readonly dataDirectory: string;
}

/**
 * The pool's own logical volume, of one extent: its tags say which pool the group holds, it is locked by the driver that
 * runs it, and the health of the disk is tried by writing to it.
 */
export class PoolVolume implements AsyncDisposable {
  readonly id: string;
  readonly #lock: Descriptor;
  readonly #device: Descriptor;
  #probes = 0;

  private constructor(id: string, lock: Descriptor, device: Descriptor) {
    this.id = id;
    this.#lock = lock;
    this.#device = device;
  }

  /**
   * Finds it, or makes a new pool in a group that holds none.
   * @throws FailedPrecondition if another driver runs it, or this node had another pool here
   */
  static async open(options: PoolVolumeOptions, group: VolumeGroup): Promise<PoolVolume> {
    const { queue } = options;
    const found = await readIdentity(options, group.state);
    const id = found ?? randomUUID();
    if (found === undefined) await step('open/identity', () => make(group, id));
    const markerPath = markerPathOf(options.dataDirectory, options.poolName);
    const syncs = new DirectorySync();
    if ((await readMarker(queue, markerPath)) === undefined) await remember({ queue, syncs }, markerPath, id);
    const { descriptor: named, device } = await openLv(queue, group, poolLvName);
    await using _named = named;
    const lock = await takeLock(options, mappedPath(device));
    try {
      return new PoolVolume(id, lock, await openFile(queue, lock, constants.O_RDWR));
    } catch (error) {
      await lock[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Something else each time, and not from memory. */
  async probe(queue: DiskQueue): Promise<void> {
    const text = `holdfast health ${++this.#probes} ${new Date().toISOString()}\n`;
    await this.#write(queue, text, 0);
  }

  /** The last note, by any driver that had the pool; arbitrary bytes, if there never was one. */
  async readNote(queue: DiskQueue): Promise<string> {
    const block = await readAt(queue, this.#device, { lengthBytes: blockBytes, offsetBytes: blockBytes });
    return block.toString('utf8').replace(/\0*$/, '');
  }

  /** Durably. */
  async writeNote(queue: DiskQueue, text: string): Promise<void> {
    await this.#write(queue, text, blockBytes);
  }

  async #write(queue: DiskQueue, text: string, offsetBytes: number): Promise<void> {
    const block = Buffer.alloc(blockBytes);
    block.write(text);
    await writeAt(queue, this.#device, block, BigInt(offsetBytes));
    await syncFile(queue, this.#device);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.unlock();
  }

  /** From now on another driver may have it. */
  async unlock(): Promise<void> {
    await this.#device[Symbol.asyncDispose]();
    await this.#lock[Symbol.asyncDispose]();
  }
}

/**
 * Which pool the group holds. Refuses one without a pool if this node had one: a group of the same name that was made
 * again looks just like that.
 * @returns undefined if a new pool can be made here
 */
export async function readIdentity(
  { dataDirectory, poolName, queue }: Pick<PoolVolumeOptions, 'dataDirectory' | 'poolName' | 'queue'>,
  state: GroupState,
): Promise<string | undefined> {
  const markerPath = markerPathOf(dataDirectory, poolName);
  const knownId = await readMarker(queue, markerPath);
  const where = `${state.name}/${poolLvName}`;
  const poolLv = state.lvs.get(poolLvName);
  if (poolLv === undefined) {
    const [orphan] = state.lvs.values();
    if (orphan !== undefined) {
      throw new FailedPrecondition(
        `pool ${poolName}: volume group ${state.name} has volumes of a pool, but its logical volume ${where} is gone. Bring it back (vgcfgrestore), or ask for help: nothing was changed.`,
      );
    }
    if (knownId === undefined) return undefined;
    throw new FailedPrecondition(
      `pool ${poolName}: this node had pool ${knownId} here, but volume group ${state.name} has no pool now. Are these the right disks? To start with an empty pool, remove ${markerPath}.`,
    );
  }
  const { id } = parseStored(
    identityDocument,
    readDocument(identityName, poolLv.tags) ?? '',
    `in the tags of ${where}`,
  );
  if (knownId !== undefined && knownId !== id) {
    throw new FailedPrecondition(
      `pool ${poolName}: volume group ${state.name} holds pool ${id}, but on this node the pool was ${knownId}. Are these the right disks? If the change is meant, remove ${markerPath}.`,
    );
  }
  return id;
}

async function make(group: VolumeGroup, id: string): Promise<void> {
  const identity = { format: 1, id, createdAt: new Date().toISOString() };
  const tags = [stateTag('pool'), ...documentTags(identityName, JSON.stringify(identity))];
  await group.create(poolLvName, { sizeBytes: group.state.extentBytes, layout: 'linear', tags });
}
