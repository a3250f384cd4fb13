import { wholeDisksOf } from '../../../../kernel/block/stacked.ts';
import type { DeviceNumber } from '../../../../kernel/device.ts';
import { DataLoss } from '../../../../volume/errors.ts';
import type { SnapshotId, VolumeId } from '../../../../volume/id.ts';
import { defaultLayout, type Layout, layouts } from '../../../../volume/layout.ts';
import type { Report } from '../commands/lvm.ts';
import type { ReportRow } from '../commands/report.ts';
import { idOfLvName, poolLvName, thinLvName } from '../names.ts';
import { type LvState, stateOf } from '../tags.ts';
import type { MetadataRoom } from './metadata.ts';

/** A logical volume of ours. */
export interface OwnLv {
  readonly name: string;
  readonly id: VolumeId | SnapshotId | undefined;
  readonly state: LvState;
  readonly sizeBytes: bigint;
  readonly layout: Layout;
  /** On how many disks each of its parts lies. */
  readonly stripes: number;
  /** For a mirror, the part of its second leg that is in step with the first: a percentage, as LVM prints it. Else empty. */
  readonly syncPercent: string;
  /** lv_attr of lvs(8): ten letters. */
  readonly attributes: string;
  readonly tags: readonly string[];
  /** It lies in a thin pool, and takes nothing directly from the group. */
  readonly isThin?: boolean;
  /** For a thin one, its number in its thin pool; undefined: LVM was not asked since it was made. */
  readonly thinId?: bigint | undefined;
}

/** A logical volume that is not ours, or not wholly. */
export interface OtherLv extends Pick<OwnLv, 'attributes' | 'name' | 'sizeBytes' | 'tags'> {
  readonly uuid: string;
}

export interface PhysicalVolume {
  readonly uuid: string;
  readonly path: string;
  readonly device: DeviceNumber | undefined;
  readonly sizeBytes: bigint;
  readonly freeBytes: bigint;
  readonly isMissing: boolean;
  readonly isAllocatable: boolean;
  /** The disks that it lies on in the end, by their names. */
  readonly disks: readonly string[];
}

/** A volume group, as LVM reported it. */
export interface GroupState {
  readonly name: string;
  readonly uuid: string;
  readonly extentBytes: bigint;
  readonly sizeBytes: bigint;
  /** The space that can be allocated. */
  readonly freeBytes: bigint;
  readonly metadata: MetadataRoom;
  readonly tags: readonly string[];
  /** Its disks differ in what they say of it. */
  readonly isDifferent: boolean;
  /** Devices that have the label of one of its disks, and are another: LVM takes the one, and not the other. */
  readonly copies: readonly { readonly path: string; readonly otherPath: string }[];
  readonly physicalVolumes: readonly PhysicalVolume[];
  /** Ours, by name. */
  readonly lvs: ReadonlyMap<string, OwnLv>;
  /** The other logical volumes in the group, by name. */
  readonly others: ReadonlyMap<string, OtherLv>;
}

/** @returns undefined if the group is not in the report */
export function groupStateOf(report: Report, vgName: string): GroupState | undefined {
  const vg = report.vg.find((row) => row['vg_name'] === vgName);
  if (vg === undefined) return undefined;
  const physicalVolumes = report.pv.filter((row) => row['vg_name'] === vgName).map(physicalVolumeOf);
  const usable = physicalVolumes.filter(({ isAllocatable, isMissing }) => isAllocatable && !isMissing);
  const segments = new Map(report.seg.map((row) => [`${row['vg_name']}/${row['lv_name']}`, row]));
  const ownOf = (row: ReportRow) => ownLvOf(row, segments.get(`${vgName}/${row['lv_name']}`));
  const rows = report.lv.filter((row) => row['vg_name'] === vgName);
  const lvs = rows.flatMap((row) => ownOf(row) ?? []);
  const others = rows.flatMap((row) => (ownOf(row) === undefined ? [otherLvOf(row)] : []));
  return {
    name: vgName,
    uuid: field(vg, 'vg_uuid'),
    extentBytes: bytes(vg, 'vg_extent_size'),
    sizeBytes: bytes(vg, 'vg_size'),
    freeBytes: usable.reduce((sum, { freeBytes }) => sum + freeBytes, 0n),
    metadata: { totalBytes: bytes(vg, 'vg_mda_size'), freeBytes: bytes(vg, 'vg_mda_free') },
    tags: list(vg, 'vg_tags'),
    isDifferent: report.isDifferent,
    copies: report.copies.flatMap(({ path: otherPath, pvUuid }) =>
      physicalVolumes.flatMap(({ path, uuid }) => (uuid === pvUuid ? [{ path, otherPath }] : [])),
    ),
    physicalVolumes,
    lvs: new Map(lvs.map((lv) => [lv.name, lv])),
    others: new Map(others.map((lv) => [lv.name, lv])),
  };
}

/** Its tag says so, and it has a name that we give: by a tag alone, or a name, nothing is taken for ours. */
export function ownLvOf(row: ReportRow, segment: ReportRow = {}): OwnLv | undefined {
  const name = field(row, 'lv_name');
  const tags = list(row, 'lv_tags');
  const state = stateOf(tags);
  const id = idOfLvName(name);
  const ownName = state === 'pool' ? poolLvName : state === 'thin' ? thinLvName : undefined;
  if (state === undefined || (ownName === undefined ? id === undefined : name !== ownName)) return undefined;
  const attributes = field(row, 'lv_attr');
  const isThin = attributes[0] === 'V';
  return {
    ...{ name, id, state, tags, attributes },
    stripes: Number(segment['stripes'] ?? 1),
    sizeBytes: bytes(row, 'lv_size'),
    layout: layoutOf(list(row, 'lv_layout')),
    syncPercent: field(row, 'sync_percent'),
    ...(isThin && { isThin, thinId: thinIdOf(segment) }),
  };
}

/** LVM has it from its own text of the group: also for inactive volumes. */
function thinIdOf(segment: ReportRow): bigint | undefined {
  const text = segment['thin_id'] ?? '';
  return /^[0-9]{1,8}$/.test(text) ? BigInt(text) : undefined;
}

/** lv_layout of lvs(8): `raid,raid1`. A layout that was changed by hand is taken for linear: all of its size is its own. */
function layoutOf(words: readonly string[]): Layout {
  return layouts.findLast((layout) => words.includes(layout)) ?? defaultLayout;
}

function otherLvOf(row: ReportRow): OtherLv {
  return {
    name: field(row, 'lv_name'),
    uuid: field(row, 'lv_uuid'),
    sizeBytes: bytes(row, 'lv_size'),
    attributes: field(row, 'lv_attr'),
    tags: list(row, 'lv_tags'),
  };
}

/** A group has a physical volume that is not there. LVM names it `[unknown]`. */
function physicalVolumeOf(row: ReportRow): PhysicalVolume {
  const attributes = field(row, 'pv_attr');
  const major = Number(row['pv_major'] ?? -1);
  const device = major > 0 ? { major, minor: Number(row['pv_minor']) } : undefined;
  return {
    uuid: field(row, 'pv_uuid'),
    path: field(row, 'pv_name'),
    device,
    disks: device === undefined ? [field(row, 'pv_uuid')] : wholeDisksOf(device),
    sizeBytes: bytes(row, 'pv_size'),
    freeBytes: bytes(row, 'pv_free'),
    isMissing: attributes[2] === 'm',
    isAllocatable: attributes[0] === 'a',
  };
}

function field(row: ReportRow, name: string): string {
  const value = row[name];
  if (value === undefined) throw new DataLoss(`the report of lvm has no ${name}: this version of LVM cannot be used.`);
  return value;
}

function bytes(row: ReportRow, name: string): bigint {
  const text = field(row, name);
  if (!/^[0-9]+$/.test(text))
    throw new DataLoss(`the report of lvm has ${name} ${JSON.stringify(text)}, which is no size.`);
  return BigInt(text);
}

function list(row: ReportRow, name: string): string[] {
  return field(row, name)
    .split(',')
    .filter((each) => each !== '');
}
