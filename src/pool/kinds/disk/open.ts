import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { OpenContext, ReadyBackend } from '../../kind.ts';
import { takeLock } from '../../location/lock.ts';
import { poolRoot } from '../../location/place.ts';
import { Wiper } from '../../wipe/wiper.ts';
import type { DiskOptions } from './config.ts';
import { DiskBackend } from './disk-backend.ts';
import { Disks } from './disks.ts';
import { HeldPartitions } from './held-partitions.ts';
import { Notes } from './notes.ts';

export interface DiskPoolOptions extends OpenContext, DiskOptions {
  readonly name: string;
}

/** More wait for their turn: a controller that is busy with zeros has no time for volumes. */
const wipesAtOnce = 2;
const formatsAtOnce = 4;

/** Where the notes of a pool's volumes lie, in the pool's directory. */
export const notesName = 'disks';

/** Opens a pool of disks: reads what labels there are, and writes nothing. */
export async function openDiskBackend(options: DiskPoolOptions): Promise<ReadyBackend> {
  const { dataDirectory, log, match, name, queue, wipe } = options;
  const directory = poolRoot(dataDirectory, name);
  const held = new AsyncDisposableStack();
  try {
    await queue.run(() => mkdir(directory, { recursive: true, mode: 0o700 }));
    held.use(await takeLock({ ...options, poolName: name }, directory));
    const notes = await Notes.open(queue, join(directory, notesName));
    const disks = new Disks({ queue, poolName: name, match, notes, log });
    await disks.scan();
    const partitions = held.use(new HeldPartitions());
    const wiper = new Wiper({ poolName: name, log, queue, atOnce: wipesAtOnce });
    const programs = queue.beside('mkfs', formatsAtOnce);
    const places = { name, queue, directory, disks, notes, partitions };
    const backend = new DiskBackend({ ...places, policy: wipe, wiper, programs, held });
    return { backend, facts: { disks: disks.own().length } };
  } catch (error) {
    await held.disposeAsync();
    throw error;
  }
}
