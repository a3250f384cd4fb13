import { ResourceExhausted } from '../../../../volume/errors.ts';
import type { DataRef, SpaceSource, StorageSpace } from '../../../backend.ts';
import { isAlone } from '../group/families.ts';
import { incompleteGroup } from '../group/trouble.ts';
import { LvmSpace, type SpaceOfGroup } from '../space.ts';
import { isBroken, type Shortage, shortageOf } from './sizes.ts';
import type { ThinFigures } from './thin-pool.ts';

interface ThinSpaceOptions {
  readonly chunkBytes?: bigint;
  readonly overcommit: number;
}

/** The space that thin volumes take of their thin pool. */
export class ThinSpace extends LvmSpace {
  override readonly sharesBlocks = true;
  override readonly layouts = undefined;
  readonly overcommit: number;
  readonly unitBytes: bigint | undefined;
  readonly #group: SpaceOfGroup;
  readonly #figures: ThinFigures;

  constructor(group: SpaceOfGroup, figures: ThinFigures, { chunkBytes, overcommit }: ThinSpaceOptions) {
    super(group);
    this.#group = group;
    this.#figures = figures;
    this.overcommit = overcommit;
    this.unitBytes = chunkBytes;
  }

  /** Asks the kernel alone. */
  override async storage(): Promise<StorageSpace> {
    const { poolName, state } = this.#group;
    const status = await this.#figures.status();
    const { data, metadata } = status;
    const { alarm } = shortageOf(status, this.overcommit > 1);
    const isIncomplete = state.physicalVolumes.some(({ isMissing }) => isMissing);
    return {
      filesystemBytes: data.totalBytes,
      freeBytes: isBroken(status) ? 0n : data.totalBytes - data.usedBytes,
      takenBytes: data.usedBytes,
      isCountedLate: false,
      isOutOfInodes: false,
      isNearlyFull: alarm !== undefined,
      metadata,
      obstacle: isIncomplete ? incompleteGroup(poolName, state.name) : this.#obstacle(alarm),
    };
  }

  /** Freed blocks count once the pool has written that down. */
  override async settle(): Promise<void> {
    await this.#figures.status(true);
  }

  /** For an unknown snapshot, the largest possible number. */
  override async allocatedBytes(data: DataRef): Promise<bigint> {
    const lv = this.lvOf(data);
    if (lv === undefined) return 0n;
    return (await this.#figures.takenBytes(lv.name)) ?? (lv.state === 'snapshot' ? lv.sizeBytes : 0n);
  }

  /** Which blocks are shared only the metadata tells, which is too long to be read; so it is all, or nothing. */
  async sharing(data: DataRef): ReturnType<NonNullable<SpaceSource['sharing']>> {
    const lv = this.lvOf(data);
    const takenBytes = await this.allocatedBytes(data);
    const isOwn = lv !== undefined && isAlone(lv, this.#group.all());
    return isOwn ? { sharedBytes: 0n, unsharedBytes: takenBytes } : { sharedBytes: takenBytes, unsharedBytes: 0n };
  }

  #obstacle(alarm: Shortage['alarm']): ResourceExhausted | undefined {
    if (alarm === undefined) return undefined;
    return obstacleFor(alarm, this.#group);
  }
}

/** The refusal of a thin pool that takes no changes any more. */
export function notWritable(group: Pick<SpaceOfGroup, 'poolName' | 'state'>): ResourceExhausted {
  return obstacleFor('mode', group);
}

function obstacleFor(
  alarm: NonNullable<Shortage['alarm']>,
  { poolName, state }: Pick<SpaceOfGroup, 'poolName' | 'state'>,
): ResourceExhausted {
  return new ResourceExhausted(`pool ${poolName}: ${obstacles[alarm]} of volume group ${state.name} (docs/lvm.md).`);
}

const obstacles: Readonly<Record<NonNullable<Shortage['alarm']>, string>> = {
  data: 'nothing is made while its thin pool is nearly full: extend the group, or delete volumes and snapshots,',
  metadata:
    'nothing is made while the metadata of its thin pool is nearly full: extend the group, or delete volumes and snapshots,',
  mode: 'nothing is made while its thin pool cannot be written to: see lvs -a',
};

/** The trouble that all of a pool's volumes have; undefined: none. */
export async function thinTrouble(figures: ThinFigures): Promise<string | undefined> {
  const { metadata, ...status } = await figures.status();
  if (isBroken(status)) return 'Its thin pool needs a repair (lvconvert --repair): nothing can be written.';
  if (status.mode === 'out_of_data_space') {
    return 'Its thin pool is full: writes wait a minute, then fail. Extend the volume group (vgextend).';
  }
  if (status.mode === 'ro' && metadata.usedBytes > 0n) {
    return 'Its thin pool has no metadata left: writes fail. Extend the volume group (vgextend).';
  }
  return undefined;
}
