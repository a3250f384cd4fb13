import { DirectorySync } from '../../../kernel/file/file.ts';
import { hasOneJournal } from '../../../kernel/file/journal.ts';
import { FilesystemFrozen } from '../../../kernel/mount/freeze.ts';
import type { OpenContext, ReadyBackend } from '../../kind.ts';
import { type OpenLocation, openLocation } from '../../location/location.ts';
import type { PoolDisk } from '../../location/match/one-disk.ts';
import { canReflink } from '../../location/reflink.ts';
import { CommitOrder } from '../../records/commit-order.ts';
import { Layout } from '../../records/layout.ts';
import { openPoolFile } from '../../records/pool-file.ts';
import { ReservedInodes } from '../../records/reserved-inodes.ts';
import { ReservedSpace } from '../../records/reserved-space.ts';
import { findBlockSizeBytes } from './block-size.ts';
import { changedBlocksIn } from './changed-blocks.ts';
import type { ImageOptions } from './config.ts';
import { detachFromDead } from './devices-by-path.ts';
import { ImageBackend } from './image-backend.ts';
import { Templates } from './templates.ts';

/** mkfs processes at a time; more only makes each of them slower. */
const formatsAtOnce = 8;

export interface ImagePoolOptions extends OpenContext, ImageOptions {
  readonly name: string;
  /** The disk of a pool with `match`. */
  readonly matched?: PoolDisk | undefined;
}

/** Opens the storage of a pool of image files: finds, makes or mounts its location, and what lies in it. */
export async function openImageBackend(options: ImagePoolOptions): Promise<ReadyBackend> {
  const { dataDirectory, queue, log, name } = options;
  const opened = await openLocation({ ...options, poolName: name, detachFromDead });
  const layout = new Layout(opened.root);
  const syncs = new DirectorySync([layout.volumes, layout.trash]);
  const location = withSyncs(opened, syncs);
  try {
    const poolFile = await openPoolFile({
      queue,
      layout,
      syncs,
      poolName: name,
      dataDirectory,
      settle: () => location.settle(),
      blockSizeBytes: () => findBlockSizeBytes(queue, layout.root),
    });
    // A pool with data opens with the size that it has; `followDisk` tries again.
    await location.grow().catch((error: unknown) => {
      if (!(error instanceof FilesystemFrozen)) throw error;
      log.warn({ pool: name, reason: error.message }, 'pool keeps its size for now');
    });
    const reserve = new ReservedSpace(layout.reserve, {
      host: location.hostReserve,
      inodes: new ReservedInodes(layout.inodes),
    });
    await reserve.acquire(queue);
    const cloning = (await reserve.withReserve(queue, () => canReflink(queue, layout.drafts))) ? 'reflink' : 'copy';
    const order = new CommitOrder(queue, syncs, await hasOneJournal(queue, layout.root));
    const formatQueue = queue.beside('mkfs', formatsAtOnce);
    const templates = await Templates.open({ cloning, formatQueue, layout, log, name, queue });
    const backend = new ImageBackend({
      ...{ formatQueue, templates },
      ...{ cloning, layout, location, log, name, order, queue, reserve, syncs },
      blockSizeBytes: poolFile.blockSizeBytes,
      changedBlocks: await changedBlocksIn(queue, layout, cloning),
    });
    return { backend, facts: { pool_id: poolFile.id, root: layout.root } };
  } catch (error) {
    if (queue.closedFor === undefined) await location.close();
    else location.abandon();
    throw error;
  }
}

/** The directories that are held open for their syncs go before their filesystem is unmounted. */
function withSyncs(location: OpenLocation, syncs: DirectorySync): OpenLocation {
  return {
    ...location,
    abandon: () => {
      void syncs.close();
      location.abandon();
    },
    close: async () => {
      await syncs.close();
      await location.close();
    },
  };
}
