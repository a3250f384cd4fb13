import { z } from 'zod';
import type { DiskQueue } from '../../../../../kernel/call/disk-queue.ts';
import { parseJsonInput } from '../../../../../volume/parse-input.ts';
import type { PoolVolume } from '../../pool-volume.ts';

const noteDocument = z.strictObject({
  metadataSnapshotOf: z.uuid(),
  /** Decimal; unset: not known yet. */
  block: z
    .string()
    .regex(/^[0-9]{1,19}$/)
    .optional(),
});

/** The note that a metadata snapshot is, or is about to be, this pool's. */
export interface SnapshotNote {
  /** Where it begins; undefined: it was about to be made. */
  readonly block: bigint | undefined;
}

/** Distinguishes the metadata snapshot of a killed driver from another program's. The note goes with the disks. */
export class SnapshotNotes {
  readonly #volume: PoolVolume;
  readonly #queue: DiskQueue;

  constructor(volume: PoolVolume, queue: DiskQueue) {
    this.#volume = volume;
    this.#queue = queue;
  }

  /** Anything that is no note of this pool counts as none: the extent may have been another one's before. */
  async read(): Promise<SnapshotNote | undefined> {
    const parsed = parseJsonInput(noteDocument, await this.#volume.readNote(this.#queue));
    if (!('data' in parsed) || parsed.data.metadataSnapshotOf !== this.#volume.id) return undefined;
    const { block } = parsed.data;
    return { block: block === undefined ? undefined : BigInt(block) };
  }

  async write({ block }: SnapshotNote): Promise<void> {
    const note = { metadataSnapshotOf: this.#volume.id, ...(block !== undefined && { block: `${block}` }) };
    await this.#volume.writeNote(this.#queue, JSON.stringify(note));
  }

  async clear(): Promise<void> {
    await this.#volume.writeNote(this.#queue, '');
  }
}

/** True if the metadata snapshot that is there is the one of the note, and not a later one of another program. */
export function isOurs(note: SnapshotNote | undefined, snapshotBlock: bigint): boolean {
  return note !== undefined && (note.block === undefined || note.block === snapshotBlock);
}
