import { realpath } from 'node:fs/promises';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import { DirectorySync } from '../../../kernel/file/file.ts';
import { hasOneJournal } from '../../../kernel/file/journal.ts';
import { ProjectQuota } from '../../../kernel/file/project-quota.ts';
import { placeOf } from '../../../kernel/mount/filesystem-place.ts';
import { Held } from '../../../volume/held.ts';
import type { OpenContext, ReadyBackend } from '../../kind.ts';
import { openLocation } from '../../location/location.ts';
import { canReflink } from '../../location/reflink.ts';
import { CommitOrder } from '../../records/commit-order.ts';
import { Layout } from '../../records/layout.ts';
import { openPoolFile, readPoolFile } from '../../records/pool-file.ts';
import { ReservedInodes } from '../../records/reserved-inodes.ts';
import { ReservedSpace } from '../../records/reserved-space.ts';
import type { DirectoryOptions } from './config.ts';
import { DirectoryBackend } from './directory-backend.ts';
import { Handovers } from './handovers.ts';
import { noQuota } from './no-quota.ts';
import { Projects } from './projects.ts';

export interface DirectoryPoolOptions extends OpenContext, DirectoryOptions {
  readonly name: string;
}

/** Trees that are copied at a time. */
const copiesAtOnce = 2;

/** Opens the storage of a pool of directories. The operator mounts its filesystem. */
export async function openDirectoryBackend(options: DirectoryPoolOptions): Promise<ReadyBackend> {
  const { dataDirectory, name, path, queue } = options;
  const held = new Held();
  try {
    const location = await openLocation({ ...options, location: { type: 'directory', path }, poolName: name });
    held.defer(() => location.close());
    // Mounts are known by what they show: a path without symbolic links.
    const layout = new Layout(await queue.run(() => realpath(location.root)));
    const root = held.use(await openReadOnly(queue, layout.root));
    const quota = new ProjectQuota(queue, root);
    const { isEnforced } = await quota.state();
    if (options.quota === 'required' && !isEnforced) {
      // Before anything is made: its disk may not be mounted. If the pool existed before, that error comes first.
      await readPoolFile({ queue, layout, poolName: name, dataDirectory, kind: 'directory' });
      throw noQuota(name, layout.root);
    }
    const syncs = new DirectorySync([layout.volumes, layout.trash]);
    held.defer(() => syncs.close());
    const poolFile = await openPoolFile({
      ...{ queue, layout, syncs, poolName: name, dataDirectory },
      kind: 'directory',
      blockSizeBytes: async () => 4096,
    });
    const reserve = new ReservedSpace(layout.reserve, { inodes: new ReservedInodes(layout.inodes) });
    await reserve.acquire(queue);
    const order = new CommitOrder(queue, syncs, await hasOneJournal(queue, layout.root));
    const place = await placeOf(queue, root, layout.root);
    const hasQuota = options.quota !== 'none' && isEnforced;
    const notes = { queue, layout, order, quota, poolName: name, poolId: poolFile.id };
    const projects = hasQuota ? await Projects.read(notes) : undefined;
    const handovers = new Handovers({ ...{ name, queue, layout, order, syncs, reserve, projects }, log: options.log });
    const canShareBlocks = await reserve.withReserve(queue, () => canReflink(queue, layout.drafts));
    const programs = queue.beside('copy', copiesAtOnce);
    const parts = { name, queue, layout, order, syncs, reserve, place, projects, handovers, canShareBlocks, programs };
    const facts = { pool_id: poolFile.id, root: layout.root, quota: hasQuota ? 'enforced' : 'none' };
    return { backend: new DirectoryBackend({ ...parts, held }), facts };
  } catch (error) {
    await held[Symbol.asyncDispose]();
    throw error;
  }
}
