import type { Layout } from '../../../volume/layout.ts';
import { larger, roundUp, smaller } from '../../../volume/size.ts';
import type { GroupState, OwnLv, PhysicalVolume } from './group/group-state.ts';

/** The disks of a volume group, and what of them can be allocated. */
export type Disks = Pick<GroupState, 'extentBytes' | 'physicalVolumes'>;

/** The allocation of a new logical volume. */
export interface LvPlan {
  readonly layout: Layout;
  /** The extents that its user can write to. */
  readonly extents: bigint;
  /** On how many disks each of its parts lies. */
  readonly stripes: number;
  /** The paths of those disks; none: LVM chooses. */
  readonly devicePaths: readonly string[];
}

/** The space that a logical volume takes of its group, for an existing one as for a planned one. */
export function takenBytes(
  { isThin, layout, sizeBytes }: Pick<OwnLv, 'isThin' | 'layout' | 'sizeBytes'>,
  extentBytes: bigint,
): bigint {
  if (isThin === true) return 0n;
  if (layout !== 'raid1') return sizeBytes;
  return 2n * (sizeBytes + extentBytes * metadataExtents(sizeBytes, extentBytes));
}

/**
 * Stripes lie on as many disks as have room for their part: on two at least. The legs of a mirror each lie on one disk, on
 * the two that have the most room: so the loss of a disk never takes both.
 * @returns undefined: too few disks have room
 */
export function planOf(layout: Layout, sizeBytes: bigint, disks: Disks): LvPlan | undefined {
  const extents = roundUp(sizeBytes, disks.extentBytes) / disks.extentBytes;
  if (layout === 'linear') return { layout, extents, stripes: 1, devicePaths: [] };
  const usable = byRoom(disks);
  const paths = (count: number) => usable.slice(0, count).map(({ path }) => path);
  if (layout === 'raid1') {
    const legBytes = takenBytes({ layout, sizeBytes: extents * disks.extentBytes }, disks.extentBytes) / 2n;
    const legs = legsOf(usable);
    const devicePaths = legs.map(({ path }) => path);
    return roomOf(legs[1]) < legBytes ? undefined : { layout, extents, stripes: 2, devicePaths };
  }
  for (let stripes = usable.length; stripes >= 2; stripes--) {
    const whole = roundUp(extents, BigInt(stripes));
    if (roomOf(usable[stripes - 1]) < (whole / BigInt(stripes)) * disks.extentBytes) continue;
    return { layout, extents: whole, stripes, devicePaths: paths(stripes) };
  }
  return undefined;
}

/** The total space of a volume with this layout; its size if there is no room for it. */
export function neededBytes(layout: Layout, sizeBytes: bigint, disks: Disks): bigint {
  const { extentBytes } = disks;
  const plan = planOf(layout, sizeBytes, disks);
  const extents = plan?.extents ?? roundUp(sizeBytes, extentBytes) / extentBytes;
  return takenBytes({ layout, sizeBytes: extents * extentBytes }, extentBytes);
}

/** The largest volume that can be made so if it may take no more than that. */
export function largestBytes(layout: Layout, availableBytes: bigint, disks: Disks): bigint {
  if (layout === 'linear') return availableBytes;
  const { extentBytes } = disks;
  const usable = byRoom(disks);
  // A sum that no layout exceeds; the rest, metadata and rounding, is a few extents.
  const boundBytes =
    layout === 'raid1'
      ? smaller(roomOf(legsOf(usable)[1]), availableBytes / 2n)
      : smaller(
          availableBytes,
          usable.reduce((max, disk, index) => larger(max, roomAt(disk, index)), 0n),
        );
  const fits = (sizeBytes: bigint) =>
    planOf(layout, sizeBytes, disks) !== undefined && neededBytes(layout, sizeBytes, disks) <= availableBytes;
  let sizeBytes = boundBytes - (boundBytes % extentBytes);
  while (sizeBytes > 0n && !fits(sizeBytes)) sizeBytes -= extentBytes;
  return larger(0n, sizeBytes);
}

/** The size that a logical volume gets: stripes are all of one length. */
export function wholeBytes(
  sizeBytes: bigint,
  { layout, stripes }: Pick<OwnLv, 'layout' | 'stripes'>,
  extentBytes: bigint,
): bigint {
  return roundUp(sizeBytes, layout === 'striped' ? extentBytes * BigInt(stripes) : extentBytes);
}

/** A part of a logical volume, and the disks that it lies on, as LVM prints them: `/dev/sda(1)`. A row for each piece of it. */
export interface PartRow {
  readonly name: string;
  readonly devices: string;
}

/** The disks of a mirror's legs; undefined: they do not lie on one each. */
export function disksOfLegs(rows: readonly PartRow[]): string[] | undefined {
  const disks = new Map<string, Set<string>>();
  for (const { devices, name } of rows) {
    const paths = devices.split(',').map((each) => each.replace(/\([0-9]+\)$/, ''));
    disks.set(name, new Set([...(disks.get(name) ?? []), ...paths]));
  }
  const paths = [...disks.values()].flatMap((each) => [...each]);
  const isOneEach = paths.length === disks.size && new Set(paths).size === paths.length;
  return paths.length >= 2 && isOneEach ? paths : undefined;
}

/** The disks that LVM may allocate from, the roomiest first. */
export function byRoom({ physicalVolumes }: Pick<Disks, 'physicalVolumes'>): PhysicalVolume[] {
  return physicalVolumes
    .filter(({ isAllocatable, isMissing }) => isAllocatable && !isMissing)
    .toSorted((a, b) => (a.freeBytes === b.freeBytes ? 0 : a.freeBytes > b.freeBytes ? -1 : 1));
}

/** The roomiest two that have no disk in common: two partitions of one are lost together. */
function legsOf(usable: readonly PhysicalVolume[]): PhysicalVolume[] {
  let best: readonly PhysicalVolume[] = [];
  for (const [index, first] of usable.entries()) {
    const second = usable.slice(index + 1).find(({ disks }) => !disks.some((disk) => first.disks.includes(disk)));
    if (second !== undefined && roomOf(second) > roomOf(best[1])) best = [first, second];
  }
  return [...best];
}

/** The room on this disk and on all that are roomier, evenly; on one alone nothing is striped. */
function roomAt({ freeBytes }: PhysicalVolume, index: number): bigint {
  return index === 0 ? 0n : freeBytes * BigInt(index + 1);
}

function roomOf(disk: PhysicalVolume | undefined): bigint {
  return disk?.freeBytes ?? 0n;
}

/** LVM's default. */
const regionBytes = 2n << 20n;

/** LVM's count for each leg: two superblocks, and a bit for each region. */
function metadataExtents(sizeBytes: bigint, extentBytes: bigint): bigint {
  const bytes = 8192n + (sizeBytes / regionBytes + 7n) / 8n;
  return (bytes + extentBytes - 1n) / extentBytes;
}
