import type { RecordedVolumes } from '../kubernetes/persistent-volumes.ts';

/** Prefix of the names that `holdfast adopt` makes (`src/admin/adoption.ts`). */
const adoptedPrefix = 'adopted.';

/** A volume in the report of one node. */
export interface NamedVolume {
  readonly node: string;
  readonly id: string;
  readonly name: string;
  /** Its data belongs to a user, and is older than the volume. */
  readonly isAdopted: boolean;
}

/** The parts of the nodes' reports that the search needs. */
export interface StrayView {
  /** Volumes whose names several nodes have, each made by its node. */
  readonly namesakes: readonly NamedVolume[];
  isSource(volumeId: string): boolean;
  /** Answers if a linked node with a complete report does not have this volume any more. */
  isGone(volume: Pick<NamedVolume, 'id' | 'node'>): boolean;
}

/**
 * Finds strays: volumes that an earlier try made on a node which the claim has left before they were recorded. The
 * PersistentVolume with the name of a stray stands for the volume of another node, and none stands for the stray. So no
 * kubelet can have staged it, as a kubelet stages only volumes of PersistentVolumes. An adopted volume is no stray: no
 * earlier try makes those, and a PersistentVolume may well have stood for it. Adoption names volumes `adopted.…` by
 * default; the prefix identifies them for drivers that do not report adoption.
 */
export function straysIn(view: StrayView, recorded: RecordedVolumes): NamedVolume[] {
  const { namesakes } = view;
  return namesakes.filter(({ isAdopted, name, node }) => {
    if (isAdopted || name.startsWith(adoptedPrefix)) return false;
    const chosen = recorded.idOf(name);
    // `fateOf` sees whether one stands for the stray, too.
    return namesakes.some((other) => other.id === chosen && other.name === name && other.node !== node);
  });
}

/** The state of a volume that was once a stray beside another volume. */
export type StrayFate = 'stray' | 'perhaps' | 'none';

/**
 * Claims come and go, and a stray outlives the PersistentVolume of the other volume: it still is a stray when that
 * volume is gone, too, e.g. after its claim was deleted. While the other volume exists, either of the two may be about
 * to be recorded. A volume with a snapshot is no stray.
 */
export function fateOf(view: StrayView, recorded: RecordedVolumes, stray: NamedVolume, other: NamedVolume): StrayFate {
  const chosen = recorded.idOf(stray.name);
  if (view.isGone(stray) || recorded.has(stray.id) || view.isSource(stray.id)) return 'none';
  if (chosen !== undefined) return chosen === other.id ? 'stray' : 'none';
  return view.isGone(other) ? 'stray' : 'perhaps';
}
