import { numberOf } from './format.ts';
import type { Pool, Trashed } from './types.ts';

/** The parts of a pool's disk, in bytes; together they are the disk. */
export interface Space {
  readonly disk: number;
  readonly volumes: number;
  readonly snapshots: number;
  readonly trash: number;
  /** Data that is not of the pool. */
  readonly other: number;
  /** Provisioned to volumes and not written yet. */
  readonly promised: number;
  readonly reserved: number;
  /** Free for new volumes. */
  readonly free: number;
  readonly provisioned: number;
  readonly total: number;
}

export const spaceParts = ['volumes', 'snapshots', 'trash', 'other', 'promised', 'reserved', 'free'] as const;
export type SpacePart = (typeof spaceParts)[number];

export const partNames: Readonly<Record<SpacePart, string>> = {
  volumes: 'used by volumes',
  snapshots: 'snapshots',
  trash: 'trash',
  other: 'other data',
  promised: 'provisioned, not written yet',
  reserved: 'reserved',
  free: 'free for new volumes',
};

/** Bytes in the trash of each pool, by `node/pool`. */
export function trashBytes(trash: Iterable<Trashed>): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { node, pool, usedBytes } of trash) {
    const key = `${node}/${pool}`;
    sums.set(key, (sums.get(key) ?? 0) + numberOf(usedBytes));
  }
  return sums;
}

/** undefined: the pool cannot be looked into. */
export function spaceOf({ capacity, disk }: Pick<Pool, 'capacity' | 'disk'>, trashed: number): Space | undefined {
  if (capacity === undefined || disk === undefined) return undefined;
  const whole = numberOf(disk.diskBytes);
  if (whole <= 0) return undefined;
  const free = Math.min(numberOf(disk.freeBytes), whole);
  const taken = whole - free;
  const ours = Math.min(numberOf(capacity.usedBytes), taken);
  const snapshots = Math.min(numberOf(disk.snapshotBytes), ours);
  const trash = Math.min(trashed, ours - snapshots);
  const promised = Math.min(numberOf(disk.claimableBytes), free);
  // The trash counts as available, too, but is not free yet.
  const available = Math.min(Math.max(0, numberOf(capacity.availableBytes) - trash), free - promised);
  return {
    disk: whole,
    ...{ volumes: ours - snapshots - trash, snapshots, trash, other: taken - ours },
    ...{ promised, reserved: free - promised - available, free: available },
    provisioned: numberOf(capacity.provisionedBytes),
    total: numberOf(capacity.totalBytes),
  };
}

/** The taken part of the disk, from 0 to 1. */
export function fullness({ disk, other, snapshots, trash, volumes }: Space): number {
  return (volumes + snapshots + trash + other) / disk;
}

export function sumOf(spaces: readonly Space[]): Space | undefined {
  const [first, ...others] = spaces;
  if (first === undefined) return undefined;
  const sum: Record<string, number> = { ...first };
  for (const space of others) {
    for (const [key, value] of Object.entries(space)) sum[key] = (sum[key] ?? 0) + value;
  }
  return { ...first, ...sum };
}
