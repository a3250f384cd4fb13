import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { type LvmTestOptions, lvm, openTestLvm } from '../../support/lvm-pool.ts';

/** Of the pool `test`. */
export const ownGroup = 'holdfast-test';

export const preciousSpec = volumeSpec('precious', { content: { type: 'block' }, sizeBytes: 8n << 20n });

/** A pool whose group is made of these disks. */
export function openOwnGroup(
  dataDirectory: string,
  devices: readonly string[],
  options: LvmTestOptions = {},
): Promise<Catalog> {
  return openTestLvm({ join: () => dataDirectory }, ownGroup, { ...options, dataDirectory, devices });
}

/** The disks of the group, in their order; undefined: there is no such group. */
export function disksOfGroup(): string[] | undefined {
  const rows = lvm('pvs', '--noheadings', '--separator', ' ', '-o', 'pv_name,vg_name').split('\n');
  const ours = rows.map((row) => row.trim().split(' ')).filter(([, group]) => group === ownGroup);
  return ours.length === 0 ? undefined : ours.map(([path = '']) => path).sort();
}
