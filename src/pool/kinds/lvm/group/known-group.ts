import type { DeviceMapper, MappedState } from '../../../../kernel/block/device-mapper.ts';
import type { DeviceNumber } from '../../../../kernel/device.ts';
import type { SnapshotId, VolumeId } from '../../../../volume/id.ts';
import { roundUp } from '../../../../volume/size.ts';
import { takenBytes } from '../layout.ts';
import { findDevice } from '../mapped-lv.ts';
import { lvNameOfMapped, mappedUuidPrefix } from '../names.ts';
import type { LvState } from '../tags.ts';
import type { GroupState, OtherLv, OwnLv, PhysicalVolume } from './group-state.ts';
import { isMetadataLow, metadataBytesOf } from './metadata.ts';

/** The state of a volume group from the last report of LVM, kept in step with the driver's changes. No disk is asked for it. */
export class KnownGroup {
  readonly poolName: string;
  protected readonly mapper: DeviceMapper;
  #state: GroupState;
  #lvs: Map<string, OwnLv>;
  /** By id; undefined: not looked for since something has changed. */
  #existing: Map<string, OwnLv> | undefined;
  #freeBytes: bigint;
  #metadataFreeBytes: bigint;

  constructor(poolName: string, mapper: DeviceMapper, state: GroupState) {
    this.poolName = poolName;
    this.mapper = mapper;
    this.#state = state;
    this.#lvs = new Map(state.lvs);
    this.#freeBytes = state.freeBytes;
    this.#metadataFreeBytes = state.metadata.freeBytes;
  }

  get state(): GroupState {
    return this.#state;
  }

  get name(): string {
    return this.#state.name;
  }

  get freeBytes(): bigint {
    return this.#freeBytes;
  }

  get(lvName: string): OwnLv | undefined {
    return this.#lvs.get(lvName);
  }

  /** All that are ours. */
  all(): Iterable<OwnLv> {
    return this.#lvs.values();
  }

  /** The foreign logical volumes, by the last report of LVM. */
  others(): Iterable<OtherLv> {
    return this.#state.others.values();
  }

  other(lvName: string): OtherLv | undefined {
    return this.#state.others.get(lvName);
  }

  /** The logical volume with this id: neither a draft nor on its way out. */
  find(id: VolumeId | SnapshotId): OwnLv | undefined {
    this.#existing ??= new Map(
      [...this.#lvs.values()]
        .filter(({ state }) => state === 'volume' || state === 'snapshot')
        .map((lv) => [lv.id ?? '', lv]),
    );
    return this.#existing.get(id);
  }

  inState(state: LvState): OwnLv[] {
    return [...this.#lvs.values()].filter((lv) => lv.state === state);
  }

  /** Its device, if it is active. Asks the kernel. */
  deviceOf(lvName: string): MappedState | undefined {
    return findDevice(this.mapper, this.#state, lvName);
  }

  /** The logical volume of the group whose device it is, ours or not. */
  nameOfDevice(device: DeviceNumber): string | undefined {
    const mapped = this.mapper.find(device);
    return mapped?.uuid.startsWith(mappedUuidPrefix(this.#state.uuid)) === true
      ? lvNameOfMapped(this.name, mapped.name)
      : undefined;
  }

  /** To whole extents. */
  roundUp(sizeBytes: bigint): bigint {
    return roundUp(sizeBytes, this.#state.extentBytes);
  }

  /** The space that a logical volume takes of the group. */
  takenBytes(lv: Pick<OwnLv, 'isThin' | 'layout' | 'sizeBytes'>): bigint {
    return takenBytes(lv, this.#state.extentBytes);
  }

  /** It was made, or changed. */
  put(lv: OwnLv): void {
    const before = this.#lvs.get(lv.name);
    this.#metadataFreeBytes -= metadataBytesOf(lv) - (before === undefined ? 0n : metadataBytesOf(before));
    this.#lvs.set(lv.name, lv);
    this.#existing = undefined;
  }

  /** Replaces the state by a new report of LVM. */
  protected know(state: GroupState): void {
    this.#state = state;
    this.#lvs = new Map(state.lvs);
    this.#existing = undefined;
    this.#freeBytes = state.freeBytes;
    this.#metadataFreeBytes = state.metadata.freeBytes;
  }

  /** Less is free than LVM said. */
  protected take(bytes: bigint): void {
    this.#freeBytes -= bytes;
  }

  /** @returns its state until now */
  protected forget(lvName: string): OwnLv | undefined {
    const before = this.#lvs.get(lvName);
    this.#existing = undefined;
    this.#lvs.delete(lvName);
    if (before !== undefined) this.#metadataFreeBytes += metadataBytesOf(before);
    return before;
  }

  protected isMetadataLow(): boolean {
    return isMetadataLow({ ...this.#state.metadata, freeBytes: this.#metadataFreeBytes });
  }

  protected isIncomplete(): boolean {
    return this.#state.physicalVolumes.some(({ isMissing }) => isMissing);
  }

  protected present(): PhysicalVolume[] {
    return this.#state.physicalVolumes.filter(({ isMissing }) => !isMissing);
  }
}
