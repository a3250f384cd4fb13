import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { checkMapper } from '../../mapped-device.ts';
import type { Finding } from '../../sight.ts';

/** Checks that device-mapper is there. */
export async function checkNode(queue: DiskQueue): Promise<Finding[]> {
  return [await checkMapper(queue)];
}
