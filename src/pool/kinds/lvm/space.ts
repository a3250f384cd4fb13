import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import { larger } from '../../../volume/size.ts';
import type { DataRef, LayoutSpace, SpaceSource, StorageSpace } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { GroupState, OwnLv } from './group/group-state.ts';
import { incompleteGroup } from './group/trouble.ts';
import { largestBytes, neededBytes, takenBytes, wholeBytes } from './layout.ts';
import { idOfLvName } from './names.ts';

/** The known state of a volume group. */
export interface SpaceOfGroup {
  readonly poolName: string;
  readonly state: Pick<GroupState, 'extentBytes' | 'name' | 'physicalVolumes' | 'sizeBytes'>;
  readonly freeBytes: bigint;
  get(lvName: string): OwnLv | undefined;
  find(id: VolumeId | SnapshotId): OwnLv | undefined;
  all(): Iterable<OwnLv>;
  refresh(): Promise<void>;
}

/** The space that logical volumes take of their group: all of their size. Data is named by an id, or by a name in LVM. */
export class LvmSpace implements SpaceSource {
  readonly sharesBlocks: boolean = false;
  readonly reservedBytes = 0n;
  readonly layouts: LayoutSpace | undefined;
  readonly #group: SpaceOfGroup;

  constructor(group: SpaceOfGroup) {
    this.#group = group;
    this.layouts = {
      neededBytes: (sizeBytes, layout) => neededBytes(layout, sizeBytes, group.state),
      largestBytes: (availableBytes, layout) => largestBytes(layout, availableBytes, group.state),
      growthBytes: (data, sizeBytes) => {
        const lv = this.lvOf(data);
        const { extentBytes } = group.state;
        if (lv === undefined) return sizeBytes;
        const grown = { ...lv, sizeBytes: wholeBytes(sizeBytes, lv, extentBytes) };
        return larger(0n, takenBytes(grown, extentBytes) - takenBytes(lv, extentBytes));
      },
    };
  }

  async storage(): Promise<StorageSpace> {
    const { freeBytes, poolName, state } = this.#group;
    const isIncomplete = state.physicalVolumes.some(({ isMissing }) => isMissing);
    return {
      filesystemBytes: state.sizeBytes,
      freeBytes,
      takenBytes: state.sizeBytes - freeBytes,
      isCountedLate: false,
      isOutOfInodes: false,
      obstacle: isIncomplete ? incompleteGroup(poolName, state.name) : undefined,
    };
  }

  /** Only LVM knows the changes of others in the group. */
  settle(): Promise<void> {
    return this.#group.refresh();
  }

  idInTrash(ref: TrashRef): VolumeId | SnapshotId | undefined {
    const id = idOfLvName(ref) ?? '';
    return parseVolumeId(id) ?? parseSnapshotId(id);
  }

  async allocatedBytes(data: DataRef): Promise<bigint> {
    const lv = this.lvOf(data);
    return lv === undefined ? 0n : takenBytes(lv, this.#group.state.extentBytes);
  }

  protected lvOf(data: DataRef): OwnLv | undefined {
    const id = parseVolumeId(data) ?? parseSnapshotId(data);
    return id === undefined ? this.#group.get(data) : this.#group.find(id);
  }
}
