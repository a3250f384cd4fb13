import { randomUUID } from 'node:crypto';
import { DirectorySync } from '../../../kernel/file/file.ts';
import { unmount } from '../../../kernel/mount/mount.ts';
import { nfsSource } from '../../../kernel/nfs/mount.ts';
import { Held } from '../../../volume/held.ts';
import type { OpenContext, ReadyBackend } from '../../kind.ts';
import { CommitOrder } from '../../records/commit-order.ts';
import { Layout } from '../../records/layout.ts';
import { openPoolFile, readPoolFile } from '../../records/pool-file.ts';
import { ReservedSpace } from '../../records/reserved-space.ts';
import { NfsBackend } from './backend.ts';
import type { NfsPoolOptions } from './config.ts';
import { mountPrivately } from './export-mount.ts';
import { ExportLock } from './lock.ts';
import { VolumeNames } from './volume-names.ts';

export interface NfsOpenOptions extends OpenContext, NfsPoolOptions {
  readonly name: string;
}

/** Trees that are copied at a time. */
const copiesAtOnce = 2;

/** Opens the storage of a pool on NFS: mounts the export for the driver alone, and locks the pool there. */
export async function openNfsBackend(options: NfsOpenOptions): Promise<ReadyBackend> {
  const { dataDirectory, exported, name, onDelete, path, queue } = options;
  const held = new Held();
  try {
    const { mountPoint, root } = await mountPrivately(options);
    held.defer(() => unmount(queue, mountPoint));
    const layout = new Layout(root);
    const place = { queue, layout, poolName: name, dataDirectory, kind: 'nfs' };
    // Before a lock is put there: the directory may be another program's.
    await readPoolFile(place);
    const lock = held.use(await ExportLock.take({ ...options, poolName: name, root, token: randomUUID() }));
    const syncs = new DirectorySync([layout.volumes, layout.trash]);
    held.defer(() => syncs.close());
    const poolFile = await openPoolFile({
      ...place,
      syncs,
      blockSizeBytes: async () => 4096,
    });
    const reserve = new ReservedSpace(layout.reserve);
    await reserve.acquire(queue);
    const programs = queue.beside('copy', copiesAtOnce);
    const parts = {
      name,
      dataDirectory,
      queue,
      layout,
      syncs,
      // A server syncs each file.
      order: new CommitOrder(queue, syncs, false),
      reserve,
      exported,
      programs,
      onDelete,
      names: new VolumeNames(queue, layout),
      options: options.options,
      // A driver that has lost its lock changes nothing that another one has.
      beforeChange: () => lock.check(queue),
    };
    const facts = { pool_id: poolFile.id, server: nfsSource(exported), root };
    return {
      backend: new NfsBackend({
        ...parts,
        poolId: poolFile.id,
        mountOptions: options.mountOptions,
        directory: path,
        mountPoint,
        lock,
        held,
      }),
      facts,
    };
  } catch (error) {
    await held[Symbol.asyncDispose]().catch(() => undefined);
    throw error;
  }
}
