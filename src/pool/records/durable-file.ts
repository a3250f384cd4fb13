import { constants } from 'node:fs';
import { open, rename, unlink, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import type { DirectorySync } from '../../kernel/file/file.ts';

/** With O_SYNC a write is durable when it returns, with all that is needed to find it in the file (open(2)). */
const { O_CREAT, O_EXCL, O_SYNC, O_TRUNC, O_WRONLY } = constants;
const durably = O_WRONLY | O_CREAT | O_SYNC;

/** Writes a new file and its content durably; the directory entry is the caller's to sync. Fails if it exists. */
export async function writeNewFile(queue: DiskQueue, path: string, text: string): Promise<void> {
  await queue.run(() => writeFile(path, text, { flag: durably | O_EXCL, mode: 0o600 }));
}

/**
 * Replaces a file as a whole: a reader, also after a power cut, sees the old text or the new one. A leftover
 * of an earlier try is overwritten.
 */
export async function replaceFile(queue: DiskQueue, syncs: DirectorySync, path: string, text: string): Promise<void> {
  const draft = `${path}.new`;
  await queue.run(() => writeFile(draft, text, { flag: durably | O_TRUNC, mode: 0o600 }));
  await queue.run(() => rename(draft, path));
  await syncs.sync(queue, dirname(path));
}

/** Removes a file durably. Gone is fine. */
export async function removeFile(queue: DiskQueue, syncs: DirectorySync, path: string): Promise<void> {
  await queue.run(() => unlink(path)).catch(ignoreMissing);
  await syncs.sync(queue, dirname(path));
}

/**
 * Writes a small file over in place, durably; the text always has the same length. Cut short, it may be neither the old
 * text nor the new one.
 */
export async function overwriteFile(queue: DiskQueue, path: string, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  await queue.run(async () => {
    await using file = await open(path, O_WRONLY | O_CREAT, 0o600);
    await file.write(bytes, 0, bytes.length, 0);
    await file.sync();
  });
}
