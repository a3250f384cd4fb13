import type { VolumeRecord } from '../../../volume/record.ts';

/**
 * The end of a volume's directory, after its volume was deleted and its time in the trash has passed. archive and retain: the
 * directory is moved out of the pool, and nothing in it is removed.
 */
export const onDeletes = ['delete', 'retain', 'archive'] as const;
export type OnDelete = (typeof onDeletes)[number];

/** Directories in the pool's own for volumes that were not removed. */
const keptIn = { archive: 'archived', retain: 'retained' } as const;

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
