import type { VolumeUsage } from '../pool/pool.ts';

export interface ShownVolumes {
  readonly shown: readonly VolumeUsage[];
  readonly hidden: readonly VolumeUsage[];
}

/**
 * The volumes that are shown one by one, if there are too many for all: those whose data takes the most, as they are who
 * fill the pool; of equal ones the first by their ids. So it is the same volumes whatever order they were read in.
 */
export function chooseShown(volumes: readonly VolumeUsage[], most: number): ShownVolumes {
  if (volumes.length <= most) return { shown: volumes, hidden: [] };
  const sorted = volumes.toSorted((a, b) => {
    if (a.usedBytes !== b.usedBytes) return a.usedBytes > b.usedBytes ? -1 : 1;
    return a.record.id < b.record.id ? -1 : 1;
  });
  return { shown: sorted.slice(0, most), hidden: sorted.slice(most) };
}
