import type { CreationResult } from './creations.ts';
import type { DataResult } from './data/data-path.ts';
import type { DeviceResult } from './devices/measure.ts';
import type { LifecycleResult } from './lifecycles.ts';
import type { MemoryResult } from './memory.ts';
import type { ScaleResult } from './scale/scale.ts';
import type { SnapshotResult } from './snapshots.ts';
import type { StartupResult } from './startup.ts';

/** Everything a run has measured. */
export interface BenchResult {
  readonly machine: {
    readonly processors: number;
    readonly kernel: string;
    readonly node: string;
    readonly filesystem: string;
  };
  readonly lifecycles: readonly LifecycleResult[];
  readonly creations: CreationResult;
  readonly startup: StartupResult;
  readonly memory: MemoryResult;
  /** Or why there are none. */
  readonly snapshots: SnapshotResult | string;
  /** Or why it was not measured. */
  readonly scale: ScaleResult | string;
  /** Or why there is none. */
  readonly dataPath: DataResult | string;
  /** The same of block volumes of other kinds, in a virtual machine; or why there is none. */
  readonly devices: readonly DeviceResult[] | string;
}

/** Instead of what takes long and is wanted rarely. */
export const notAskedFor = 'not asked for (--data)';

export function mebibytes(bytes: number): number {
  return bytes / 2 ** 20;
}
