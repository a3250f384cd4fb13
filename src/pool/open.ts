import type { Backend } from './backend.ts';
import type { Catalog } from './catalog/catalog.ts';
import { type CatalogOptions, openCatalog } from './catalog/open.ts';
import type { OpenContext, ReadyBackend } from './kind.ts';
import { explainTrouble } from './location/trouble.ts';

export interface PoolOptions extends CatalogOptions, Pick<OpenContext, 'queue'> {
  /** Where the pool is, or will be: the filesystem that an error without a path is of. */
  readonly path: string;
  /** From the lowest to the uppermost. */
  readonly layers?: readonly ((inner: Backend) => Backend)[];
}

/** Opens a pool: the backend of its kind, the layers over it, and the catalog over them all. */
export async function openOver(openBackend: () => Promise<ReadyBackend>, options: PoolOptions): Promise<Catalog> {
  const { name, path, queue } = options;
  try {
    return await openLayered(await openBackend(), options);
  } catch (error) {
    throw await explainTrouble(error, { queue, poolName: name, path });
  }
}

async function openLayered({ backend, facts }: ReadyBackend, options: PoolOptions): Promise<Catalog> {
  const { layers = [], log, name, queue } = options;
  const layered = layers.reduce((inner, layer) => layer(inner), backend);
  try {
    const pool = await openCatalog(layered, options);
    log.info({ pool: name, ...facts, volumes: pool.volumeCount }, 'pool opened');
    return pool;
  } catch (error) {
    if (queue.closedFor === undefined) await layered.close();
    else layered.abandon();
    throw error;
  }
}
