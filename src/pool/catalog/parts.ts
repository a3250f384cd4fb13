import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { Backend } from '../backend.ts';
import type { Freezer } from '../freeze/freezer.ts';
import type { RecordIndex } from '../indexes/record-index.ts';
import type { SnapshotIndex } from '../indexes/snapshot-index.ts';
import type { PoolLog } from '../log.ts';
import type { SpaceLedger } from '../space/space-ledger.ts';
import type { Generations } from './generations.ts';
import type { Trash } from './trash.ts';
import type { Unsettled } from './unsettled.ts';

/** The parts of an open pool, put together once by `openCatalog` and shared by all that works on it. */
export interface CatalogParts {
  readonly name: string;
  readonly backend: Backend;
  readonly log: PoolLog;
  /** For volumes that do not say; 0: deleted is gone. */
  readonly undeleteSeconds: number;
  readonly index: RecordIndex<VolumeId, VolumeRecord>;
  readonly snapshotIndex: SnapshotIndex;
  readonly space: SpaceLedger;
  readonly freezer: Freezer;
  readonly trash: Trash;
  readonly unsettled: Unsettled;
  readonly generations: Generations;
  /** Records of volumes that this process has made, and not tried to delete or to move: nothing of either lies with them. */
  readonly untouched: WeakSet<VolumeRecord>;
}
