import { constants } from 'node:fs';
import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { openFile, openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { type DirectorySync, resizeFile, syncFile } from '../../../kernel/file/file.ts';
import { copyRange, nextData } from '../../../kernel/file/sparse.ts';
import { parseJsonInput } from '../../../volume/parse-input.ts';
import { smaller } from '../../../volume/size.ts';
import { storedBytes } from '../../../volume/stored-json.ts';
import { replaceFile } from '../../records/durable-file.ts';

export interface ImageCopy {
  readonly fromPath: string;
  /** The draft's directory, the same for each try: `data` and `copy.json` lie in it. */
  readonly directory: string;
  /** Aborted when no call waits for it: it stops after the current piece, and can be resumed later. */
  readonly signal: AbortSignal | undefined;
  readonly onProgress: (doneBytes: bigint, totalBytes: bigint) => void;
}

/** The durable progress of a copy, and the state of its source: if that has changed since, the copy starts again. */
const progressFile = z.strictObject({ source: z.string(), doneBytes: storedBytes });

/** The number of bytes after which the copied data is synced and the progress noted. */
const pieceBytes = 256n << 20n;

/**
 * Copies an image that is not in use, leaving out its holes. For pools whose filesystem cannot share blocks. A copy
 * that was cut short, by a crash too, goes on where it was.
 */
export async function copyImage(queue: DiskQueue, syncs: DirectorySync, copy: ImageCopy): Promise<void> {
  const data = join(copy.directory, 'data');
  const state = join(copy.directory, 'copy.json');
  await using from = await openReadOnly(queue, copy.fromPath);
  const source = await queue.run(() => stat(copy.fromPath, { bigint: true }));
  const identity = `${source.dev}:${source.ino} ${source.size} ${source.mtimeNs}`;
  let doneBytes = await readProgress(queue, state, identity);
  if (doneBytes === 0n) {
    // Durably, before any data of this source is written: a copy that resumed an earlier one's data would mix two sources.
    await queue.run(() => rm(state, { force: true }));
    await syncs.sync(queue, copy.directory);
    await queue.run(() => rm(data, { force: true }));
  }
  {
    await using to = await openFile(queue, data, constants.O_WRONLY | constants.O_CREAT, 0o600);
    for (;;) {
      copy.signal?.throwIfAborted();
      const next = await nextData(queue, from, doneBytes);
      if (next === undefined) break;
      const lengthBytes = smaller(next.lengthBytes, pieceBytes);
      await copyRange(queue, from, to, { offsetBytes: next.offsetBytes, lengthBytes });
      doneBytes = next.offsetBytes + lengthBytes;
      await syncFile(queue, data);
      await replaceFile(queue, syncs, state, JSON.stringify({ source: identity, doneBytes: doneBytes.toString() }));
      copy.onProgress(doneBytes, source.size);
    }
  }
  await resizeFile(queue, data, source.size);
  await queue.run(() => rm(state, { force: true }));
}

async function readProgress(queue: DiskQueue, path: string, identity: string): Promise<bigint> {
  try {
    const text = await queue.run(() => readFile(path, 'utf8'));
    const progress = parseJsonInput(progressFile, text);
    // Not noted readably, or of another source: from the start.
    return 'data' in progress && progress.data.source === identity ? BigInt(progress.data.doneBytes) : 0n;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return 0n;
    throw error;
  }
}
