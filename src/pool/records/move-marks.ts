import { join } from 'node:path';
import { readIfThere } from '../../kernel/file/file.ts';
import { isMissingByCache } from '../../kernel/file/path.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import { replaceFile } from './durable-file.ts';
import type { FileParts } from './file-store.ts';

/** Lies beside the record of a volume or snapshot that has moved, or is about to. */
export const moveMarkName = 'move.json';

/** @returns undefined if there is none */
export async function readMark(
  { layout, queue }: Pick<FileParts, 'layout' | 'queue'>,
  id: SnapshotId | VolumeId,
): Promise<string | undefined> {
  const path = join(layout.directoryOf(id), moveMarkName);
  if (queue.closedFor === undefined && isMissingByCache(path)) return undefined;
  return readIfThere(queue, path);
}

/** @returns undefined if there is none */
export function readMarkInTrash({ queue }: Pick<FileParts, 'queue'>, ref: TrashRef): Promise<string | undefined> {
  return readIfThere(queue, join(ref, moveMarkName));
}

/** Marks as files beside the records, for every kind whose volumes lie on a filesystem. They go into the trash with them. */
export class FileMarks {
  readonly #parts: FileParts;

  constructor(parts: FileParts) {
    this.#parts = parts;
  }

  readMark(id: SnapshotId | VolumeId): Promise<string | undefined> {
    return readMark(this.#parts, id);
  }

  async writeMark(id: SnapshotId | VolumeId, text: string): Promise<void> {
    await this.#parts.beforeChange?.();
    const { layout, queue, reserve, syncs } = this.#parts;
    await reserve.withReserve(queue, () => replaceFile(queue, syncs, join(layout.directoryOf(id), moveMarkName), text));
  }

  markInTrash(ref: TrashRef): Promise<string | undefined> {
    return readMarkInTrash(this.#parts, ref);
  }
}
