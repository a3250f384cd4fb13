import { open, rename, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { format } from '../../command/mkfs.ts';
import { ignoreMissing } from '../../kernel/errno.ts';
import { DirectorySync, resizeFile, syncFile } from '../../kernel/file.ts';
import type { Lane } from '../../kernel/lane.ts';
import { step } from '../../volume/step.ts';

/**
 * Makes a sparse file with XFS in it, unless the file is there already. Made under another name and renamed into place
 * when whole, so a crash leaves nothing half made. The caller holds the lock on the file's directory.
 */
export async function ensureBackingFile(lane: Lane, path: string, sizeBytes: bigint): Promise<void> {
  if (await isThere(lane, path)) return;
  const directory = dirname(path);
  const draft = `${path}.new`;
  await step('open/draft', async () => {
    await lane.run(() => unlink(draft)).catch(ignoreMissing);
    await lane.run(async () => (await open(draft, 'wx', 0o600)).close());
    await resizeFile(lane, draft, sizeBytes);
    await format({ path: draft, fsType: 'xfs', blockSizeBytes: 512, extraArguments: [] });
    await syncFile(lane, draft);
  });
  await step('open/commit', async () => {
    await lane.run(() => rename(draft, path));
    await new DirectorySync().sync(lane, directory);
  });
}

async function isThere(lane: Lane, path: string): Promise<boolean> {
  try {
    await lane.run(() => stat(path));
    return true;
  } catch (error) {
    ignoreMissing(error);
    return false;
  }
}
