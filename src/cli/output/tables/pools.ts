import { formatBytes } from '../../../volume/size.ts';
import type { Shape } from '../shapes.ts';

export type PoolItem = Shape<'pools'>['pools'][number];

export const poolColumns = [
  { title: 'NAME' },
  { title: 'KIND' },
  { title: 'CLONES', extra: 1 },
  { title: 'STATE' },
  { title: 'VOLUMES', align: 'right', extra: 6 },
  { title: 'SIZE', align: 'right' },
  { title: 'PROVISIONED', align: 'right', extra: 5 },
  { title: 'USED', align: 'right' },
  { title: 'SNAPSHOTS', align: 'right', extra: 4 },
  { title: 'AVAILABLE', align: 'right' },
  { title: 'FREE', align: 'right', extra: 2 },
  { title: 'DRIVER', extra: 3 },
  { title: 'LOCATION', flexible: true },
] as const;

export function poolRow({ capacity, disk, drivers, location, traits, ...pool }: PoolItem): string[] {
  const { totalBytes, provisionedBytes, usedBytes, availableBytes } = capacity ?? {};
  const { freeBytes, snapshotBytes } = disk ?? {};
  const sizes = [totalBytes, provisionedBytes, usedBytes, snapshotBytes, availableBytes, freeBytes];
  return [
    pool.default ? `${pool.name} (default)` : pool.name,
    pool.kind,
    traits?.snapshots ?? '-',
    pool.state,
    pool.volumes === undefined ? '-' : String(pool.volumes),
    ...sizes.map((bytes) => (bytes === undefined ? '-' : formatBytes(BigInt(bytes)))),
    drivers.map(({ pid }) => `pid ${pid}`).join(', ') || '-',
    `${location.type} ${location.path}`,
  ];
}
