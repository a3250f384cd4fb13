import type { VolumeUsage } from '../pool/pool.ts';

export interface ShownVolumes {
  readonly shown: readonly VolumeUsage[];
  readonly hidden: readonly VolumeUsage[];
}

/**
 * Chooses the volumes with metrics, if there are too many for all: those with the most data, as they fill the pool;
 * among equals the first by id. So the choice does not depend on the order in which they were read.
 */
export function chooseShown(volumes: readonly VolumeUsage[], max: number): ShownVolumes {
  if (volumes.length <= max) return { shown: volumes, hidden: [] };
  const sorted = volumes.toSorted((a, b) => {
    if (a.usedBytes !== b.usedBytes) return a.usedBytes > b.usedBytes ? -1 : 1;
    return a.record.id < b.record.id ? -1 : 1;
  });
  return { shown: sorted.slice(0, max), hidden: sorted.slice(max) };
}
