import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import { FailedPrecondition } from '../../volume/errors.ts';

/** @throws FailedPrecondition if something is mounted in a directory, here: it is not the volume's, and would be taken for it */
export async function refuseMountsInside(queue: DiskQueue, path: string, what: string): Promise<void> {
  const inside = (await readMountTable(queue)).find(({ target }) => target === path || target.startsWith(`${path}/`));
  if (inside === undefined) return;
  throw new FailedPrecondition(`${what}: something is mounted at ${inside.target}. Unmount it first.`);
}
