import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { DirectorySync } from '../../kernel/file.ts';
import type { Lane } from '../../kernel/lane.ts';

/** Writes a new file and its content durably; the directory entry is the caller's to sync. Fails if it exists. */
export async function writeNewFile(lane: Lane, path: string, text: string): Promise<void> {
  await lane.run(async () => {
    await using file = await open(path, 'wx', 0o600);
    await file.writeFile(text);
    await file.sync();
  });
}

/**
 * Replaces a file as a whole: whoever reads it, also after a power cut, sees the old text or the new one. A leftover
 * of an earlier try is overwritten.
 */
export async function replaceFile(lane: Lane, syncs: DirectorySync, path: string, text: string): Promise<void> {
  const draft = `${path}.new`;
  await lane.run(async () => {
    await using file = await open(draft, 'w', 0o600);
    await file.writeFile(text);
    await file.sync();
  });
  await lane.run(() => rename(draft, path));
  await syncs.sync(lane, dirname(path));
}
