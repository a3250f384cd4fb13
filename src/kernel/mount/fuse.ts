import { writeFile } from 'node:fs/promises';
import { openFile, openFlags } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { ignoreMissing } from '../call/errno.ts';
import { type DeviceNumber, sameDevice } from '../device.ts';
import { statusOf } from '../file/path.ts';
import { mountDetached } from './mount.ts';

/**
 * Ends the connection of a FUSE filesystem with its process: all calls that wait for an answer fail, also those that no signal
 * ends (fuse.rst of the kernel).
 * @param path leads into it; if it leads elsewhere by now, the number may be another filesystem's, and nothing is ended
 */
export async function abortConnection(queue: DiskQueue, path: string, device: DeviceNumber): Promise<void> {
  // O_PATH sends no request. While it is open, no other filesystem gets the number.
  await using inside = await openFile(queue, path, openFlags.O_PATH).catch(ignoreMissing);
  if (!inside || !sameDevice((await statusOf(queue, inside)).device, device)) return;
  // It need not be mounted on the node, nor be seen in a container.
  await using control = await mountDetached(queue, {
    ...{ fsType: 'fusectl', source: 'fusectl', parameters: [], attributes: {} },
  });
  const abort = (root: string) => queue.run(() => writeFile(`${root}/${device.minor}/abort`, '1', { flag: 'r+' }));
  await control.during((root) => abort(root)).catch(ignoreMissing);
}
