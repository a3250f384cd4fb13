import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { DirectorySync } from '../../kernel/file/file.ts';
import type { Freezer } from '../freeze/freezer.ts';
import type { ImageDevices } from '../kinds/image/devices.ts';
import type { ImageMaker } from '../kinds/image/image-maker.ts';
import type { ReservedSpace } from '../location/reserved-space.ts';
import type { PoolLog } from '../log.ts';
import type { PoolCapabilities } from '../pool.ts';
import type { Layout } from '../records/layout.ts';
import type { SpaceLedger } from '../space/space-ledger.ts';
import type { RecordIndex } from './record-index.ts';
import type { SnapshotIndex } from './snapshot-index.ts';
import type { Trash } from './trash.ts';
import type { Unsettled } from './unsettled.ts';

/** What an open image pool consists of, put together once by `openImagePool` and shared by all that works on it. */
export interface ImageParts {
  readonly name: string;
  readonly queue: DiskQueue;
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
  readonly reserve: ReservedSpace;
  readonly unsettled: Unsettled;
  /** Where programs run that repair filesystems: they take no worker thread, but each reads a disk for long. */
  readonly programs: DiskQueue;
}
