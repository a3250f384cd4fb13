import { type DeviceMapper, type MappedState, mappedPath } from '../../../../kernel/block/device-mapper.ts';
import { parseThinBytes, parseThinPool, type ThinPoolStatus } from '../../../../kernel/block/thin-status.ts';
import type { Descriptor } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../../../kernel/device.ts';
import { openDirect } from '../../../../kernel/file/direct.ts';
import { DataLoss, InternalError } from '../../../../volume/errors.ts';
import { defaultLayout } from '../../../../volume/layout.ts';
import type { PoolLog } from '../../../log.ts';
import * as arguments_ from '../commands/thin-arguments.ts';
import { familyTagOf, newFamilyTag } from '../group/families.ts';
import type { OwnLv } from '../group/group-state.ts';
import type { VolumeGroup } from '../group/volume-group.ts';
import { idOfLvName, mappedName, mappedUuidPrefix, thinLvName } from '../names.ts';
import { stateOf } from '../tags.ts';
import { InstantSnapshots } from './instant-snapshots.ts';
import { isBroken } from './sizes.ts';
import { notWritable } from './space.ts';

/** LVM's name for the pool itself, below the device that only keeps it active. */
const layer = '-tpool';
/** Its metadata, which LVM names so. */
const metadataLvName = `${thinLvName}_tmeta`;
const statusesAtOnce = 2;

/** The figures that tell how full a thin pool is. */
export interface ThinFigures {
  /** @param isExact otherwise the status may be a second old */
  status(isExact?: boolean): Promise<ThinPoolStatus>;
  /** The bytes of the pool that a thin volume has, shared or not; undefined: it was not active since the pool was opened. */
  takenBytes(lvName: string): Promise<bigint | undefined>;
}

export interface ThinPoolParts {
  readonly chunkBytes: bigint;
  /** More than 1: more may be promised than there is. */
  readonly overcommit: number;
  readonly queue: DiskQueue;
  readonly log: PoolLog;
}

/** The thin pool of a volume group's pool, and the thin volumes in it. */
export class ThinPool implements ThinFigures {
  readonly group: VolumeGroup;
  /** For volumes in use. */
  readonly instant: InstantSnapshots;
  readonly chunkBytes: bigint;
  readonly overcommit: number;
  readonly #mapper: DeviceMapper;
  readonly #queue: DiskQueue;
  /** The last figures of volumes that are inactive by now, and so do not change. */
  readonly #takenBytes = new Map<string, bigint>();

  constructor(group: VolumeGroup, mapper: DeviceMapper, { chunkBytes, log, overcommit, queue }: ThinPoolParts) {
    this.group = group;
    this.instant = new InstantSnapshots(this, mapper, { log, queue });
    this.chunkBytes = chunkBytes;
    this.overcommit = overcommit;
    this.#mapper = mapper;
    this.#queue = queue.beside('thin', statusesAtOnce);
    group.beforeDeactivation = async (lvNames) => {
      await Promise.all(lvNames.map((name) => this.takenBytes(name)));
    };
  }

  get isOvercommitted(): boolean {
    return this.overcommit > 1;
  }

  async status(isExact = false): Promise<ThinPoolStatus> {
    const status = (await this.#ask(isExact)) ?? (await this.#activated(isExact));
    if (status !== undefined) return status;
    throw this.#inactive();
  }

  async takenBytes(lvName: string): Promise<bigint | undefined> {
    const device = this.group.deviceOf(lvName)?.device;
    const status = device && (await this.#mapper.status(this.#queue, device, false));
    const bytes = status && parseThinBytes(status);
    if (bytes !== undefined) this.#takenBytes.set(lvName, bytes);
    return this.#takenBytes.get(lvName);
  }

  /** It stays active when no volume of it is: to be activated takes a check of all of its metadata. */
  async keepActive(): Promise<void> {
    if (this.group.deviceOf(thinLvName) === undefined) await this.group.activate(this.#queue, thinLvName);
  }

  /** Learns what volumes have of it that are inactive, as after a boot: only active ones tell. */
  async measure(): Promise<void> {
    const { group } = this;
    const all = [...group.inState('volume'), ...group.inState('trash')].map(({ name }) => name);
    const inactive = all.filter((name) => group.deviceOf(name) === undefined);
    if (inactive.length === 0) return;
    await group.activateAll(inactive);
    await group.deactivate(inactive);
  }

  /** Tells the kernel's thin pool to do something, in its own words. @throws KernelError */
  async tell(message: string): Promise<void> {
    await this.#mapper.tell(this.#queue, this.device, message);
  }

  /** The device of the kernel's thin pool. @throws DataLoss if it is not active */
  get device(): DeviceNumber {
    const found = poolDevice(this.#mapper, this.group.state);
    if (found === undefined) throw this.#inactive();
    return found.device;
  }

  /** Its metadata, to be read past the page cache, as the kernel writes it. */
  async openMetadata(): Promise<Descriptor> {
    const mapped = this.group.deviceOf(metadataLvName);
    if (mapped === undefined) throw this.#inactive();
    return openDirect(this.#queue, mappedPath(mapped.device));
  }

  /** Blank, and active. @param familyTag of those that it is going to share blocks with */
  async create(
    lvName: string,
    sizeBytes: bigint,
    tags: readonly string[],
    familyTag: string = newFamilyTag(),
  ): Promise<void> {
    const { group } = this;
    await group.requireMetadata();
    const size = group.roundUp(sizeBytes);
    const allTags = [...tags, familyTag];
    const names = { vgName: group.name, poolLvName: thinLvName, lvName };
    await group.change(arguments_.newThinLvArguments({ ...names, sizeBytes: size, tags: allTags }), 0n);
    group.put(thinLv(lvName, size, allTags));
    await this.#requireBlank(lvName);
  }

  /**
   * LVM gives the next number that is free in its own books. If the kernel's thin pool knows that number already, as after
   * thin_repair(8) or vgcfgrestore(8), the new volume holds foreign data.
   * @throws DataLoss then; and the volume is disowned, so that nothing of it is removed
   */
  async #requireBlank(lvName: string): Promise<void> {
    const { group } = this;
    const blank = group.deviceOf(lvName);
    const status = blank && (await this.#mapper.status(this.#queue, blank.device, false));
    const takenBytes = status && parseThinBytes(status);
    if (takenBytes === 0n) return;
    if (takenBytes === undefined) {
      throw new InternalError(`logical volume ${group.name}/${lvName} was just made, and is not active.`);
    }
    await group.disown(lvName);
    throw new DataLoss(
      `pool ${group.poolName}: logical volume ${group.name}/${lvName} was just made, and holds data that LVM knows nothing of. It was left for you to look at (docs/lvm.md). Try again.`,
    );
  }

  /**
   * Makes sure that the last message to the kernel's thin pool is durable: its answer does not report a failed commit
   * (pool_message), but the pool is read-only after one. @throws ResourceExhausted
   */
  async requireWritable(): Promise<void> {
    const status = await this.status();
    if (isBroken(status) || status.mode === 'ro') throw notWritable(this.group);
  }

  /** For a volume that is not in use. @param isActive its device is wanted */
  async clone(from: OwnLv, lvName: string, tags: readonly string[], isActive: boolean): Promise<void> {
    const { group } = this;
    await group.requireMetadata();
    const allTags = [...tags, familyTagOf(from)];
    const names = { vgName: group.name, fromName: from.name, lvName };
    await group.change(arguments_.newThinCloneArguments({ ...names, isActive, tags: allTags }), 0n);
    group.put(thinLv(lvName, from.sizeBytes, allTags));
    await this.ownsAsMuch(lvName, from.name);
  }

  /** It was just cloned. */
  async ownsAsMuch(lvName: string, fromName: string): Promise<void> {
    const takenBytes = await this.takenBytes(fromName);
    if (takenBytes !== undefined) this.#takenBytes.set(lvName, takenBytes);
  }

  async extendData(bytes: bigint): Promise<void> {
    const { group } = this;
    const extents = bytes / group.state.extentBytes;
    await group.change(arguments_.extendDataArguments(group.name, thinLvName, extents), bytes);
    await group.refresh();
  }

  async extendMetadata(bytes: bigint): Promise<void> {
    const { group } = this;
    await group.change(arguments_.extendMetadataArguments(group.name, thinLvName, bytes), bytes);
    await group.refresh();
  }

  #inactive(): DataLoss {
    const { name, poolName } = this.group;
    return new DataLoss(
      `pool ${poolName}: thin pool ${name}/${thinLvName} cannot be activated: see lvs -a, the kernel log, and docs/lvm.md.`,
    );
  }

  async #activated(isExact: boolean): Promise<ThinPoolStatus | undefined> {
    await this.group.activate(this.#queue, thinLvName);
    return this.#ask(isExact);
  }

  async #ask(isExact: boolean): Promise<ThinPoolStatus | undefined> {
    const found = poolDevice(this.#mapper, this.group.state);
    const status = found && (await this.#mapper.status(this.#queue, found.device, isExact));
    return status && parseThinPool(status, this.chunkBytes);
  }
}

/** Before the first volume is in it, it has the name that is its own; after that, one of LVM's. */
export function poolDevice(
  mapper: DeviceMapper,
  { name, uuid }: { readonly name: string; readonly uuid: string },
): MappedState | undefined {
  const own = mappedName(name, thinLvName);
  return [own + layer, own]
    .map((each) => mapper.find(each))
    .find((mapped) => mapped?.uuid.startsWith(mappedUuidPrefix(uuid)) === true);
}

function thinLv(name: string, sizeBytes: bigint, tags: readonly string[]): OwnLv {
  const state = stateOf(tags) ?? 'draft';
  return {
    ...{ name, id: idOfLvName(name), state, sizeBytes, tags, isThin: true },
    ...{ layout: defaultLayout, stripes: 1, syncPercent: '', attributes: 'Vwi-a-tz-k' },
  };
}
