import { mkdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { DirectorySync } from '../../../kernel/file/file.ts';
import { InternalError } from '../../../volume/errors.ts';
import { Held } from '../../../volume/held.ts';
import type { OpenContext, ReadyBackend } from '../../kind.ts';
import { openLocation } from '../../location/location.ts';
import { CommitOrder } from '../../records/commit-order.ts';
import { Layout } from '../../records/layout.ts';
import { openPoolFile } from '../../records/pool-file.ts';
import { ReservedSpace } from '../../records/reserved-space.ts';
import { ExecBackend } from './backend.ts';
import type { ExecPoolOptions } from './config.ts';
import { ExecListing } from './listing.ts';
import { requireSameProgram } from './made-with.ts';
import { StorageCalls } from './storage-calls.ts';

export interface ExecOpenOptions extends OpenContext, ExecPoolOptions {
  readonly name: string;
}

/** Opens the records of a pool of a program, and locks them. */
export async function openExecBackend(options: ExecOpenOptions): Promise<ReadyBackend> {
  const { dataDirectory, log, name, program, programName, queue, records } = options;
  if (program === undefined) throw new InternalError(`pool ${name}: program ${programName} is not configured.`);
  const held = new Held();
  try {
    const location = await openLocation({ ...options, location: { type: 'directory', path: records }, poolName: name });
    held.defer(() => location.close());
    const layout = new Layout(await queue.run(() => realpath(location.root)));
    const syncs = new DirectorySync([layout.volumes, layout.snapshots, layout.trash]);
    held.defer(() => syncs.close());
    const place = { queue, layout, syncs, poolName: name, dataDirectory };
    const poolFile = await openPoolFile({ ...place, kind: 'exec', blockSizeBytes: async () => 4096 });
    await requireSameProgram(place, { program: programName, options: options.options });
    const reserve = new ReservedSpace(layout.reserve);
    await reserve.acquire(queue);
    const locks = join(dataDirectory, 'exec', 'locks');
    await queue.run(() => mkdir(locks, { recursive: true, mode: 0o700 }));
    // Programs take no thread of the records.
    const beside = queue.beside('program', 1);
    const storage = new StorageCalls(program, { queue: beside, locks, log }, options.options);
    // A program runs between its draft and the rename: the draft is durable before.
    const order = new CommitOrder(queue, syncs, false);
    const listing = new ExecListing({ name, queue, layout, log, storage });
    const parts = { name, queue, layout, order, syncs, reserve, storage, listing, log };
    const facts = { pool_id: poolFile.id, root: layout.root, program: programName };
    listing.begin();
    return {
      backend: new ExecBackend({ ...parts, poolId: poolFile.id, held, program, options: options.options }),
      facts,
    };
  } catch (error) {
    await held[Symbol.asyncDispose]();
    throw error;
  }
}
