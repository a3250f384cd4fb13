import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attachLoop } from '../../../kernel/block/loop.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { type Finding, fail, ok } from '../../sight.ts';

/** Tries a loop device, over a file that is gone afterwards. */
export async function checkNode(queue: DiskQueue): Promise<Finding[]> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-doctor-'));
  try {
    await tryLoop(queue, join(directory, 'image'));
    return [ok('loop devices', 'LOOP_CONFIGURE')];
  } catch (error) {
    const remedy =
      "Load the module (modprobe loop). In Kubernetes the container is privileged and has the host's /dev.";
    return [fail('loop devices', explain(error), remedy)];
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function tryLoop(queue: DiskQueue, backing: string): Promise<void> {
  await writeFile(backing, '');
  await truncate(backing, 1 << 20);
  const request = { backing, label: 'holdfast-doctor', readonly: false, autoclear: true, blockSizeBytes: 512 };
  await using _device = (await attachLoop(queue, request)).descriptor;
}
