import { formatBytes } from '../../volume/size.ts';
import type { Shape } from '../shapes.ts';

export type PoolItem = Shape<'pools'>['pools'][number];

export const poolColumns = [
  { title: 'NAME' },
  { title: 'KIND' },
  { title: 'CLONES' },
  { title: 'STATE' },
  { title: 'VOLUMES', align: 'right' },
  { title: 'SIZE', align: 'right' },
  { title: 'PROVISIONED', align: 'right' },
  { title: 'USED', align: 'right' },
  { title: 'SNAPSHOTS', align: 'right' },
  { title: 'AVAILABLE', align: 'right' },
  { title: 'FREE', align: 'right' },
  { title: 'DRIVER' },
  { title: 'LOCATION' },
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
