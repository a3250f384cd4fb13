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
  const { createdAt, encryption, groupId, id, name, pool, sizeBytes, sourceId } = snapshot;
  return [
    id,
    shortened(printable(name), 44),
    pool,
    sourceId,
    formatBytes(BigInt(sizeBytes)),
    groupId ?? '-',
    encryption?.keyId ?? '-',
    age(createdAt, now),
  ];
}
