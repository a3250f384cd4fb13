import type { VolumeRecord } from '../../../volume/record.ts';

/**
 * What becomes of a volume's directory once its volume is deleted, and its time in the trash has passed. archive and retain:
 * nothing of it is removed; it is moved where the pool has no more to do with it.
 */
export const onDeletes = ['delete', 'retain', 'archive'] as const;
export type OnDelete = (typeof onDeletes)[number];

/** The directories in the pool's own that have what was not removed. */
const keptIn = { archive: 'archived', retain: 'retained' } as const;

export const keptDirectories: readonly string[] = Object.values(keptIn);

/** The name for a volume's directory that people find it by: its claim, if that is known, and its id. */
export function keptName(
  onDelete: Exclude<OnDelete, 'delete'>,
  { id, name, parameters }: Pick<VolumeRecord, 'id' | 'name' | 'parameters'>,
): readonly [directory: string, name: string] {
  const claim = [parameters['csi.storage.k8s.io/pvc/namespace'], parameters['csi.storage.k8s.io/pvc/name']];
  const words = claim.every((word) => word !== undefined) ? claim.join('-') : name;
  const plain = words.replaceAll(/[^A-Za-z0-9_-]+/g, '-').slice(0, 150);
  return [keptIn[onDelete], `${plain}.${id}`];
}
