import { stat } from 'node:fs/promises';
import { listDisks } from '../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { type Finding, fail, ok, warn } from '../../sight.ts';
import { isMadeOfOthers } from './survey.ts';

/** Whether the disks of the node, and their nodes in /dev, can be seen. */
export async function checkNode(queue: DiskQueue): Promise<Finding[]> {
  const disks = (await listDisks(queue)).filter((disk) => !isMadeOfOthers(disk));
  const hidden = [];
  for (const { devicePath } of disks) {
    if (!(await queue.run(() => stat(devicePath).catch(() => undefined)))?.isBlockDevice()) hidden.push(devicePath);
  }
  const remedy = "In Kubernetes the container is privileged and has the host's /dev.";
  if (hidden.length > 0) return [fail('disks', `${hidden.join(', ')} cannot be opened`, remedy)];
  if (disks.length === 0) return [warn('disks', 'none', 'This node has no disk that a pool of disks could take.')];
  return [ok('disks', `${disks.length} seen; holdfast disks tells of each`)];
}
