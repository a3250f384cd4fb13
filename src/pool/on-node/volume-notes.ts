import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { DirectorySync } from '../../kernel/file/file.ts';
import { storedEncryption } from '../../volume/encryption.ts';
import { Unavailable } from '../../volume/errors.ts';
import { fileNameOf, parseHandle, type VolumeHandle } from '../../volume/handle.ts';
import { type parseInput, parseJsonInput } from '../../volume/parse-input.ts';
import { provisionings } from '../../volume/record.ts';
import { step } from '../../volume/step.ts';
import { indented, storedBytes, storedContent, storedParameters } from '../../volume/stored-json.ts';
import type { PoolLog } from '../log.ts';
import type { VolumeOnNode } from '../node-side.ts';
import { replaceFile } from '../records/durable-file.ts';

/** A node's knowledge of a volume that it uses: an unstage has nothing but the volume's handle. */
export interface VolumeNote {
  readonly kind: string;
  readonly volume: Omit<VolumeOnNode, 'accessModes' | 'publication'>;
  /** Where it is staged or published, or is about to be. Empty: its device was left behind. */
  readonly paths: readonly string[];
}

/** A key more, of a newer driver, is no mistake: `format` tells what this one cannot read. */
const storedNote = z.object({
  format: z.literal(1),
  handle: z.string(),
  kind: z.string(),
  content: storedContent,
  provisioning: z.enum(provisionings),
  sizeBytes: storedBytes.optional(),
  encryption: storedEncryption.optional(),
  context: storedParameters,
  paths: z.array(z.string()),
});

const suffix = '.json';

/**
 * Notes on the volumes that this node uses and has no record of, one file for each. A note is durable before anything of
 * its volume is attached, so that an unstage works after a crash and after a reboot, and goes when nothing is left.
 */
export class VolumeNotes {
  readonly #directory: string;
  readonly #queue: DiskQueue;
  readonly #syncs = new DirectorySync();
  readonly #notes = new Map<VolumeHandle, VolumeNote>();
  /** By path, with the reason. */
  readonly #unreadable = new Map<string, string>();

  private constructor(directory: string, queue: DiskQueue) {
    this.#directory = directory;
    this.#queue = queue;
  }

  /** A note that cannot be read is left as it is: the next stage of its volume writes it again. */
  static async open(directory: string, queue: DiskQueue, log: PoolLog): Promise<VolumeNotes> {
    const notes = new VolumeNotes(directory, queue);
    await queue.run(() => mkdir(directory, { recursive: true, mode: 0o700 }));
    for (const found of await readNotes(directory, queue)) {
      if ('reason' in found) {
        log.warn(found, 'cannot read the note of a volume on this node');
        notes.#unreadable.set(found.path, found.reason);
      } else notes.#notes.set(found.volume.handle, found);
    }
    return notes;
  }

  read(handle: VolumeHandle): VolumeNote | undefined {
    return this.#notes.get(handle);
  }

  /** @throws Unavailable if there is a note that cannot be read: nothing tells then what to end for the volume */
  requireReadable(handle: VolumeHandle): void {
    const path = this.#path(handle);
    const reason = this.#unreadable.get(path);
    if (reason === undefined) return;
    throw new Unavailable(
      `volume ${handle}: its note ${path} cannot be read (${reason}): use the driver that wrote it, or end the use of the volume on this node by hand and remove the note.`,
    );
  }

  all(): VolumeNote[] {
    return [...this.#notes.values()];
  }

  /** Durable when it returns. */
  async write(note: VolumeNote): Promise<void> {
    const { handle } = note.volume;
    const text = serializeNote(note);
    await step('volume-note/write', () => replaceFile(this.#queue, this.#syncs, this.#path(handle), text));
    this.#unreadable.delete(this.#path(handle));
    this.#notes.set(handle, note);
  }

  async remove(handle: VolumeHandle): Promise<void> {
    await step('volume-note/remove', () => this.#queue.run(() => rm(this.#path(handle), { force: true })));
    this.#notes.delete(handle);
  }

  #path(handle: VolumeHandle): string {
    return join(this.#directory, `${fileNameOf(handle)}${suffix}`);
  }
}

/** The notes in a directory; of one that cannot be read, the reason. */
export async function readNotes(
  directory: string,
  queue: DiskQueue,
): Promise<(VolumeNote | { readonly path: string; readonly reason: string })[]> {
  const names = await queue.run(() => readdir(directory));
  return Promise.all(
    names
      .filter((name) => name.endsWith(suffix))
      .map(async (name) => {
        const path = join(directory, name);
        const note = parseNote(await queue.run(() => readFile(path, 'utf8')));
        if ('mistakes' in note) return { path, reason: note.mistakes.join('; ') };
        const isOwn = `${fileNameOf(note.data.volume.handle)}${suffix}` === name;
        return isOwn ? note.data : { path, reason: 'it is of another volume' };
      }),
  );
}

export function serializeNote({ kind, paths, volume }: VolumeNote): string {
  const { content, context, encryption, handle, provisioning, sizeBytes } = volume;
  const stored: z.input<typeof storedNote> = {
    format: 1,
    ...{ handle, kind, content, provisioning, context, paths: [...paths] },
    ...(sizeBytes === undefined ? {} : { sizeBytes: sizeBytes.toString() }),
    ...(encryption === undefined ? {} : { encryption }),
  };
  return indented(stored);
}

export function parseNote(text: string): ReturnType<typeof parseInput<VolumeNote>> {
  const parsed = parseJsonInput(storedNote, text);
  if ('mistakes' in parsed) return parsed;
  const { content, context, encryption, handle: given, kind, paths, provisioning, sizeBytes } = parsed.data;
  const handle = parseHandle(given);
  if (handle === undefined) return { mistakes: ['handle: it cannot be the id of a volume'] };
  const volume = {
    ...{ handle, content, provisioning, context },
    ...(sizeBytes === undefined ? {} : { sizeBytes: BigInt(sizeBytes) }),
    ...(encryption === undefined ? {} : { encryption }),
  };
  return { data: { kind, volume, paths } };
}
