import type { DeviceMapper } from '../../../../kernel/block/device-mapper.ts';
import { FailedPrecondition, HoldfastError, ResourceExhausted } from '../../../../volume/errors.ts';
import { larger } from '../../../../volume/size.ts';
import { step } from '../../../../volume/step.ts';
import type { OpenContext } from '../../../kind.ts';
import type { PoolLog } from '../../../log.ts';
import { newThinPoolArguments } from '../commands/thin-arguments.ts';
import type { OwnLv } from '../group/group-state.ts';
import { noRoomForThinPool } from '../group/trouble.ts';
import type { VolumeGroup } from '../group/volume-group.ts';
import { thinLvName } from '../names.ts';
import { stateTag } from '../tags.ts';
import type { ThinPoolOptions } from './config.ts';
import { chunkBytesFor, metadataBytesFor } from './sizes.ts';
import { ThinPool } from './thin-pool.ts';

/** lvmthin(7): with less LVM makes none. */
const minMetadataBytes = 4n << 20n;
const chunkPrefix = 'holdfast.chunk=';

/**
 * Finds the thin pool of a pool, or makes it in one that has no volumes yet. A start that was cut short in the middle of it
 * leaves a logical volume of ours that is no thin pool yet, and so holds nothing: it is made again.
 * @throws FailedPrecondition if there is something else in its place, or volumes that are not in it
 */
export async function openThinPool(
  group: VolumeGroup,
  mapper: DeviceMapper,
  { log, queue, ...options }: ThinPoolOptions & Pick<OpenContext, 'log' | 'queue'>,
): Promise<ThinPool> {
  refuseThickVolumes(group);
  let lv = group.get(thinLvName);
  if (lv !== undefined && !isThinPool(lv)) {
    await step('open/draft', () => group.remove(thinLvName));
    lv = undefined;
  }
  if (lv === undefined) {
    await step('open/commit', () => make(group, options));
    await group.refresh();
    lv = group.get(thinLvName);
  }
  const chunkBytes = lv === undefined || !isThinPool(lv) ? undefined : chunkBytesOf(lv);
  if (lv === undefined || chunkBytes === undefined) {
    throw new FailedPrecondition(
      `pool ${group.poolName}: ${group.name}/${thinLvName} is no thin pool that Holdfast has made: see lvs -a -o +lv_tags. Nothing was changed.`,
    );
  }
  const pool = new ThinPool(group, mapper, { log, queue, chunkBytes, overcommit: options.overcommit });
  await pool.keepActive();
  const missingBytes = group.roundUp(options.sizeBytes) - lv.sizeBytes;
  if (missingBytes > 0n) await step('open/extend', () => extendIfPossible(pool, missingBytes, log));
  await pool.measure();
  return pool;
}

/** Without it its volumes can be used as before. */
async function extendIfPossible(pool: ThinPool, bytes: bigint, log: PoolLog): Promise<void> {
  try {
    await pool.extendData(bytes);
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    const { name, poolName } = pool.group;
    log.warn(
      { pool: poolName, volume_group: name, err: error },
      'the thin pool cannot be made as large as its configuration says',
    );
  }
}

/** @throws FailedPrecondition for a pool of thin volumes whose configuration says nothing of it any more */
export function refuseThinPool(group: VolumeGroup): void {
  if (group.get(thinLvName) === undefined) return;
  throw new FailedPrecondition(
    `pool ${group.poolName}: its volumes in volume group ${group.name} lie in a thin pool, but its configuration has no thinPool. Write it as it was.`,
  );
}

function refuseThickVolumes(group: VolumeGroup): void {
  const states = ['draft', 'volume', 'snapshot', 'trash', 'removed'] as const;
  const thick = states.flatMap((state) => group.inState(state)).find(({ isThin }) => isThin !== true);
  if (thick === undefined) return;
  throw new FailedPrecondition(
    `pool ${group.poolName}: volume group ${group.name} has volumes of this pool that are not thin (${thick.name}). Take thinPool out of its configuration, or give it another volume group.`,
  );
}

async function make(group: VolumeGroup, { metadataBytes, sizeBytes }: ThinPoolOptions): Promise<void> {
  const size = group.roundUp(sizeBytes);
  const chunkBytes = chunkBytesFor(size);
  const metadata = group.roundUp(larger(minMetadataBytes, metadataBytes ?? metadataBytesFor(size, chunkBytes)));
  const tags = [stateTag('thin'), `${chunkPrefix}${chunkBytes}`];
  const names = { vgName: group.name, lvName: thinLvName };
  const extents = size / group.state.extentBytes;
  // LVM keeps as much again as a spare, for repairs.
  const neededBytes = size + 2n * metadata;
  const asked = { ...names, extents, metadataBytes: metadata, chunkBytes, tags };
  try {
    await group.change(newThinPoolArguments(asked), neededBytes);
  } catch (error) {
    const isFull = error instanceof ResourceExhausted && neededBytes > group.freeBytes;
    throw isFull ? noRoomForThinPool(group, { sizeBytes: size, metadataBytes: metadata }) : error;
  }
}

function isThinPool({ attributes }: OwnLv): boolean {
  return attributes[0] === 't';
}

/** undefined: it was not made by us. */
export function chunkBytesOf({ tags }: OwnLv): bigint | undefined {
  const text = tags.find((tag) => tag.startsWith(chunkPrefix))?.slice(chunkPrefix.length) ?? '';
  return /^[0-9]{1,12}$/.test(text) ? BigInt(text) : undefined;
}
