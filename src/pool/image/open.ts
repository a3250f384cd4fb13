import { DirectorySync } from '../../kernel/file.ts';
import { Lane } from '../../kernel/lane.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import { findBlockSizeBytes } from './block-size.ts';
import { ImageDevices } from './devices.ts';
import { type Home, openHome } from './home.ts';
import { ImagePool } from './image-pool.ts';
import { Layout } from './layout.ts';
import { openPoolFile } from './pool-file.ts';
import { RecordIndex } from './record-index.ts';
import { readRecords } from './records.ts';
import { SpaceLedger } from './space-ledger.ts';
import { Trash } from './trash.ts';

export interface ImagePoolOptions {
  readonly name: string;
  readonly home: Home;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  /** undefined: a share of the filesystem (`defaultReserveBytes`). */
  readonly reserveBytes: bigint | undefined;
  /** 1: never promise more than there is. */
  readonly overcommit: number;
  readonly defaultFilesystem: FilesystemType;
  /** How long to wait for another driver to let the pool go. */
  readonly lockTimeoutMs: number;
  readonly lane: Lane;
  readonly log: PoolLog;
}

/** Where a pool reports what it found and did by itself. Structurally a pino logger. */
export interface PoolLog {
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

/** mkfs processes at a time; more only makes each of them slower. */
const formatsAtOnce = 8;

/**
 * Opens the pool and reconciles it with what a crash or a reboot left: half-made and half-removed volumes go, devices
 * that nobody can see go, everything else is as it was.
 */
export async function openImagePool(options: ImagePoolOptions): Promise<ImagePool> {
  const { dataDirectory, lane, log, name } = options;
  const openedHome = await openHome({ ...options, poolName: name });
  try {
    const layout = new Layout(openedHome.root);
    const syncs = new DirectorySync();
    const poolFile = await openPoolFile({
      lane,
      layout,
      syncs,
      poolName: name,
      dataDirectory,
      blockSizeBytes: () => findBlockSizeBytes(lane, layout.root),
    });
    const { records, damaged } = await readRecords(lane, layout);
    for (const { id, reason } of damaged)
      log.error({ pool: name, volume_id: id, reason }, 'a volume record is damaged');
    const devices = new ImageDevices(lane, layout);
    for (const id of await devices.detachOrphans()) {
      log.warn({ pool: name, volume_id: id }, 'detached a device that a killed driver had left');
    }
    const trash = new Trash(lane, layout, (path, error) =>
      log.error({ pool: name, path, err: error }, 'cannot unlink; the next start tries again'),
    );
    await trash.sweep();
    const index = new RecordIndex(records, damaged);
    log.info({ pool: name, pool_id: poolFile.id, root: layout.root, volumes: records.length }, 'pool opened');
    return new ImagePool({
      name,
      lane,
      formatLane: new Lane(`${name} mkfs`, formatsAtOnce),
      layout,
      blockSizeBytes: poolFile.blockSizeBytes,
      defaultFilesystem: options.defaultFilesystem,
      index,
      space: new SpaceLedger({ ...options, poolName: name, layout, index, backingFile: openedHome.backingFile }),
      devices,
      trash,
      syncs,
      closeHome: () => openedHome.close(),
    });
  } catch (error) {
    await openedHome.close();
    throw error;
  }
}
