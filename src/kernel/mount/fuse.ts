import { writeFile } from 'node:fs/promises';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing } from '../call/errno.ts';
import type { DeviceNumber } from '../device.ts';
import { mountDetached } from './mount.ts';

/**
 * Ends the connection of a FUSE filesystem with its process: all calls that wait for an answer fail, also those that no signal
 * ends (fuse.rst of the kernel). The caller has a mount of it: otherwise the number may be another filesystem's by now.
 */
export async function abortConnection(queue: DiskQueue, { minor }: DeviceNumber): Promise<void> {
  // It need not be mounted on the node, nor be seen in a container.
  await using control = await mountDetached(queue, {
    ...{ fsType: 'fusectl', source: 'fusectl', parameters: [], attributes: {} },
  });
  const abort = (path: string) => queue.run(() => writeFile(`${path}/${minor}/abort`, '1', { flag: 'r+' }));
  await control.during((path) => abort(path)).catch(ignoreMissing);
}
