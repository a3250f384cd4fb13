import type { DeviceNumber } from '../kernel/device.ts';
import type { LockHolder } from '../kernel/process/lock.ts';
import type { GroupId, SnapshotId, VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import type { SnapshotRecord } from '../volume/snapshot-record.ts';
import type { DiskUsage, PoolCapacity, Traits } from './pool.ts';

/** The outside view of a pool: no driver needs to run, and nothing is changed. */
export interface PoolSight {
  readonly location: LocationSight;
  /** undefined if the pool cannot be looked into. */
  readonly contents: PoolContents | undefined;
}

/**
 * open: it is there, and mounted if need be. closed: it is not mounted here. absent: the driver makes it at its first
 * start. broken: the driver will not use it. quarantined: the driver that runs it says that its disk is sick. silent: its
 * disk does not answer.
 */
export type LocationState = 'open' | 'absent' | 'closed' | 'broken' | 'quarantined' | 'silent';

/** True if the driver can use a pool in this state, or does. */
export function isUsable(state: LocationState): boolean {
  return state === 'open' || state === 'absent' || state === 'closed';
}

/** Where a pool is, in words of its kind: a directory, a device, a volume group. */
export interface PoolPlace {
  readonly type: string;
  readonly path: string;
}

export interface LocationSight extends PoolPlace {
  readonly state: LocationState;
  /** The problem and its remedy, if it is not open. */
  readonly advice: string | undefined;
  /** The driver that runs the pool now, if any does. */
  readonly holders: readonly LockHolder[];
}

export interface PoolContents {
  readonly records: readonly VolumeRecord[];
  readonly snapshots: readonly SeenSnapshot[];
  readonly damaged: readonly DamagedRecord[];
  /** If wanted. */
  readonly capacity: PoolCapacity | undefined;
  readonly disk: DiskUsage | undefined;
  /** With `attachments`: what the data of each volume takes; of some it may take too long to find out. */
  readonly usedBytes?: ReadonlyMap<VolumeId, bigint> | undefined;
  /** The abilities of a pool here, as far as they are known without writing. */
  readonly traits: Partial<Traits>;
  /** The findings for `holdfast doctor` beside its state; it puts the pool's name before each check. */
  readonly findings: readonly Finding[];
  /** If wanted: through what volumes can be reached on this node now; those that are not in use may be left out. */
  readonly shown: ReadonlyMap<VolumeId, readonly Shown[]>;
}

export interface SeenSnapshot extends SnapshotRecord {
  /** Set for a copy that is the snapshot no more: the pool that it was handed over to, and the other node of that, as far as that is known. */
  readonly left?: { readonly pool?: string | undefined; readonly node?: string | undefined } | undefined;
}

export interface DamagedRecord {
  readonly id: VolumeId | SnapshotId | GroupId;
  readonly reason: string;
}

/** Through what a volume can be reached on this node. */
export type Shown =
  | { readonly kind: 'device'; readonly path: string; readonly device: DeviceNumber }
  /** A directory, by its filesystem and its path from there: what the mounts of it have in the kernel's table. */
  | { readonly kind: 'directory'; readonly device: DeviceNumber; readonly root: string };

/** One line of `holdfast doctor`. warn: it works, but not all of it, or not for long. */
export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warn' | 'fail';
  readonly detail: string;
  /** The remedy; undefined if all is well. */
  readonly remedy?: string;
}

export function ok(check: string, detail: string): Finding {
  return { check, status: 'ok', detail };
}

export function warn(check: string, detail: string, remedy: string): Finding {
  return { check, status: 'warn', detail, remedy };
}

export function fail(check: string, detail: string, remedy: string): Finding {
  return { check, status: 'fail', detail, remedy };
}

/** Details that take time, beside the records: how full the pool is, where its volumes are in use, or both. */
export const wantedDetails = ['records', 'capacity', 'attachments', 'all'] as const;
export type Wanted = (typeof wantedDetails)[number];

export function wantsCapacity(wanted: Wanted): boolean {
  return wanted === 'capacity' || wanted === 'all';
}

export function wantsAttachments(wanted: Wanted): boolean {
  return wanted === 'attachments' || wanted === 'all';
}

/** The pool's filesystem cannot be read without writing to its disk, or not now. The message is for the operator. */
export class NotReadable extends Error {}
