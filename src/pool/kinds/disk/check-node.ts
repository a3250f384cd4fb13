import { DeviceMapper } from '../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { type Finding, fail, ok } from '../../sight.ts';

/** Whether device-mapper is there. */
export async function checkNode(queue: DiskQueue): Promise<Finding[]> {
  try {
    await DeviceMapper.open(queue);
    return [ok('device-mapper', '/dev/mapper/control')];
  } catch (error) {
    const remedy =
      "Load the module (modprobe dm_mod). In Kubernetes the container is privileged and has the host's /dev.";
    return [fail('device-mapper', explain(error), remedy)];
  }
}
