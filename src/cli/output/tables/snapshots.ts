import { formatBytes } from '../../../volume/size.ts';
import type { Shape } from '../shapes.ts';
import { age, printable, shortened } from '../text.ts';

export type SnapshotItem = Shape<'snapshots'>['snapshots'][number];

export const snapshotColumns = [
  { title: 'ID' },
  { title: 'NAME', flexible: true },
  { title: 'POOL', extra: 3 },
  { title: 'SOURCE', extra: 5 },
  { title: 'SIZE', align: 'right' },
  { title: 'GROUP', extra: 2 },
  { title: 'KEY', extra: 1 },
  { title: 'AGE', align: 'right' },
] as const;

export function snapshotRow(snapshot: SnapshotItem, now: Date): string[] {
  const { createdAt, encryption, groupId, id, name, sizeBytes, sourceId } = snapshot;
  return [
    id,
    shortened(printable(name), 44),
    placeOf(snapshot),
    sourceId,
    formatBytes(BigInt(sizeBytes)),
    groupId ?? '-',
    encryption?.keyId ?? '-',
    age(createdAt, now),
  ];
}

function placeOf({ movingTo, pool }: SnapshotItem): string {
  if (movingTo === undefined) return pool;
  const { node, pool: target = 'another pool' } = movingTo;
  return `${pool}, moving to ${target}${node === undefined ? '' : ` of ${node}`}`;
}
