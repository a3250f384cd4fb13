import { join } from 'node:path';
import { z } from 'zod';
import type { DiskIdentity } from '../../kernel/block/disk-identity.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { DirectorySync, readIfThere } from '../../kernel/file/file.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';
import { storedBytes } from '../../volume/stored-json.ts';
import { removeFile, replaceFile } from '../records/durable-file.ts';

/** A format that was begun: its disk, and the UUID for mkfs, which is in all that it writes. */
export interface BegunFormat {
  readonly disk: DiskIdentity;
  readonly uuid: string;
}

const markerFile = z.strictObject({
  format: z.literal(1),
  disk: z.strictObject({ name: z.string(), sizeBytes: storedBytes }),
  uuid: z.uuid(),
});

/**
 * Says that a disk was blank and is being formatted. mkfs is no single step: cut short, it leaves something that is
 * neither blank nor whole. With the marker the next start can tell that this is ours, and formats again; the marker is
 * durably gone before the filesystem is used for the first time, and when the format fails.
 */
export class FormatMarker {
  readonly #queue: DiskQueue;
  readonly #path: string;
  readonly #syncs = new DirectorySync();

  constructor(queue: DiskQueue, directory: string, poolName: string) {
    this.#queue = queue;
    this.#path = join(directory, `${poolName}.formatting`);
  }

  /** undefined: none was begun, or the note says too little. */
  async read(): Promise<BegunFormat | undefined> {
    const text = await this.#text();
    const marker = text === undefined ? undefined : parse(text);
    return marker && { uuid: marker.uuid, disk: { ...marker.disk, sizeBytes: BigInt(marker.disk.sizeBytes) } };
  }

  /**
   * Removes a marker that says too little. Older drivers wrote the device's path, and formatted whatever had that path
   * later.
   */
  async removeVoid(): Promise<void> {
    const text = await this.#text();
    if (text !== undefined && parse(text) === undefined) await this.clear();
  }

  async set({ disk, uuid }: BegunFormat): Promise<void> {
    const marker = { format: 1, disk: { ...disk, sizeBytes: disk.sizeBytes.toString() }, uuid };
    await replaceFile(this.#queue, this.#syncs, this.#path, `${JSON.stringify(marker)}\n`);
  }

  /** No marker is as good. */
  async clear(): Promise<void> {
    await removeFile(this.#queue, this.#syncs, this.#path);
  }

  #text(): Promise<string | undefined> {
    return readIfThere(this.#queue, this.#path);
  }
}

function parse(text: string): z.infer<typeof markerFile> | undefined {
  const parsed = parseJsonInput(markerFile, text);
  return 'data' in parsed ? parsed.data : undefined;
}
