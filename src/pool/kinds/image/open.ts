import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { DirectorySync } from '../../../kernel/file/file.ts';
import type { Backend } from '../../backend.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { type CatalogOptions, openCatalog } from '../../catalog/open.ts';
import { type Location, type OpenLocation, openLocation } from '../../location/location.ts';
import { canReflink } from '../../location/reflink.ts';
import { ReservedInodes } from '../../location/reserved-inodes.ts';
import { ReservedSpace } from '../../location/reserved-space.ts';
import { explainTrouble } from '../../location/trouble.ts';
import { Layout } from '../../records/layout.ts';
import { openPoolFile } from '../../records/pool-file.ts';
import { findBlockSizeBytes } from './block-size.ts';
import { changedBlocksIn } from './changed-blocks.ts';
import { detachFromDead } from './devices-by-path.ts';
import { ImageBackend } from './image-backend.ts';
import { Templates } from './templates.ts';

/** mkfs processes at a time; more only makes each of them slower. */
const formatsAtOnce = 8;

export interface ImagePoolOptions extends CatalogOptions {
  readonly location: Location;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  /** How long to wait for another driver to let the pool go. */
  readonly lockTimeoutMs: number;
  /** Once aborted, nobody waits for the lock any more. */
  readonly stopping?: AbortSignal | undefined;
  readonly queue: DiskQueue;
  /** Over the images, from below. */
  readonly layers?: readonly ((inner: Backend) => Backend)[];
}

/** Opens a pool of image files: finds, makes or mounts its location, and what lies in it. */
export async function openImagePool(options: ImagePoolOptions): Promise<Catalog> {
  try {
    return await openPool(options);
  } catch (error) {
    const { dataDirectory, location, queue, name } = options;
    throw await explainTrouble(error, {
      queue,
      poolName: name,
      path: 'path' in location ? location.path : dataDirectory,
    });
  }
}

async function openPool(options: ImagePoolOptions): Promise<Catalog> {
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
      blockSizeBytes: () => findBlockSizeBytes(queue, layout.root),
    });
    await location.grow();
    const reserve = new ReservedSpace(layout.reserve, {
      host: location.hostReserve,
      inodes: new ReservedInodes(layout.inodes),
    });
    await reserve.acquire(queue);
    const cloning = (await reserve.withReserve(queue, () => canReflink(queue, layout.drafts))) ? 'reflink' : 'copy';
    const formatQueue = queue.beside('mkfs', formatsAtOnce);
    const templates =
      cloning === 'reflink' ? await Templates.open({ formatQueue, layout, log, name, queue }) : undefined;
    const backend = new ImageBackend({
      ...{ formatQueue, templates },
      ...{ cloning, layout, location, log, name, queue, reserve, syncs },
      blockSizeBytes: poolFile.blockSizeBytes,
      changedBlocks: await changedBlocksIn(queue, layout, cloning),
    });
    const layered = (options.layers ?? []).reduce<Backend>((inner, layer) => layer(inner), backend);
    const pool = await openCatalog(layered, options);
    log.info({ pool: name, pool_id: poolFile.id, root: layout.root, volumes: pool.volumeCount }, 'pool opened');
    return pool;
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
