import type { DirectorySync } from '../../kernel/file.ts';
import type { Lane } from '../../kernel/lane.ts';
import type { PoolCapabilities } from '../pool.ts';
import type { Ballast } from './ballast.ts';
import type { ImageDevices } from './devices.ts';
import type { Freezer } from './freezer.ts';
import type { ImageMaker } from './image-maker.ts';
import type { Layout } from './layout.ts';
import type { PoolLog } from './log.ts';
import type { RecordIndex } from './record-index.ts';
import type { SnapshotIndex } from './snapshot-index.ts';
import type { SpaceLedger } from './space-ledger.ts';
import type { Trash } from './trash.ts';
import type { Unsettled } from './unsettled.ts';

/** What an open image pool consists of, put together once by `openImagePool` and shared by all that works on it. */
export interface ImageParts {
  readonly name: string;
  readonly lane: Lane;
  readonly layout: Layout;
  readonly log: PoolLog;
  readonly blockSizeBytes: number;
  /** For volumes that do not say; 0: deleted is gone. */
  readonly undeleteSeconds: number;
  readonly changedBlocks: PoolCapabilities['changedBlocks'];
  readonly index: RecordIndex;
  readonly snapshotIndex: SnapshotIndex;
  readonly space: SpaceLedger;
  readonly devices: ImageDevices;
  readonly freezer: Freezer;
  readonly maker: ImageMaker;
  readonly trash: Trash;
  readonly syncs: DirectorySync;
  readonly ballast: Ballast;
  readonly unsettled: Unsettled;
  /** Where programs run that repair filesystems: they take no worker thread, but each reads a disk for long. */
  readonly programs: Lane;
}
