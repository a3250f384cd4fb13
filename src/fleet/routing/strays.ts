/** Where `holdfast adopt` gives the name (`src/admin/adoption.ts`). */
const adoptedPrefix = 'adopted.';

/** A volume, as one node has it. */
export interface NamedVolume {
  readonly node: string;
  readonly id: string;
  readonly name: string;
  /** Its data is somebody's, and was there before it. */
  readonly isAdopted: boolean;
}

/** What Kubernetes has recorded of this driver's volumes. */
export interface RecordedVolumes {
  /** The volume that a PersistentVolume of this name stands for. */
  idOf(name: string): string | undefined;
  has(id: string): boolean;
}

/** What is asked of the nodes' inventories. */
export interface StrayView {
  /** Volumes of names that several nodes have, each node's own. */
  readonly namesakes: readonly NamedVolume[];
  isSource(volumeId: string): boolean;
  /** Whether a node that is there with all that it has has this volume no more. */
  isGone(volume: Pick<NamedVolume, 'id' | 'node'>): boolean;
}

/**
 * The volumes that a first try made on a node which its claim has left before they were recorded: the PersistentVolume of
 * that name stands for the volume of another node, and none stands for this one. No kubelet can have staged it then, for a
 * kubelet stages what a PersistentVolume stands for; one that somebody has cut a snapshot of is no such volume. Nor is one
 * that was adopted: no first try makes those, and a PersistentVolume may well have stood for it. Adoption names volumes
 * `adopted.…` unless it is told another name; by that a volume of a driver that does not tell is known.
 */
export function straysIn(view: StrayView, recorded: RecordedVolumes): NamedVolume[] {
  const { namesakes } = view;
  return namesakes.filter(({ id, isAdopted, name, node }) => {
    if (isAdopted || name.startsWith(adoptedPrefix)) return false;
    const chosen = recorded.idOf(name);
    if (chosen === undefined || recorded.has(id) || view.isSource(id)) return false;
    return namesakes.some((other) => other.id === chosen && other.name === name && other.node !== node);
  });
}

/** What has become of a volume that once was a stray beside that other one. */
export type StrayFate = 'stray' | 'perhaps' | 'none';

/**
 * Claims come and go, and a stray outlives the PersistentVolume that stood for the other volume: it still is one when that
 * volume is gone, too, as a deleted claim's is. While it is there somebody may be about to record the one or the other.
 */
export function fateOf(view: StrayView, recorded: RecordedVolumes, stray: NamedVolume, other: NamedVolume): StrayFate {
  const chosen = recorded.idOf(stray.name);
  if (view.isGone(stray) || recorded.has(stray.id) || view.isSource(stray.id)) return 'none';
  if (chosen !== undefined) return chosen === other.id ? 'stray' : 'none';
  return view.isGone(other) ? 'stray' : 'perhaps';
}
