import { readlink, stat } from 'node:fs/promises';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { listProcesses, processState } from '../../../../kernel/process/process.ts';

/** It exists as long as udevd runs (systemd-udevd.service(8)). */
const controlSocket = 'run/udev/control';
const daemons: readonly (string | undefined)[] = ['systemd-udevd', 'udevd'];

/**
 * True if udev would answer an LVM that runs where that process does. LVM waits for it by a semaphore, which both must see: it
 * is not enough that a container has /run/udev of the node, for then it waits for ever.
 */
export async function udevAnswers(queue: DiskQueue, beside: 1 | 'self'): Promise<boolean> {
  const isThere = await queue
    .run(() => stat(`/proc/${beside}/root/${controlSocket}`))
    .then(
      () => true,
      () => false,
    );
  if (!isThere) return false;
  const own = await semaphoresOf(queue, beside);
  for (const pid of await listProcesses(queue)) {
    if (!daemons.includes((await processState(queue, pid))?.command)) continue;
    if (own !== undefined && (await semaphoresOf(queue, pid)) === own) return true;
  }
  return false;
}

/** Equal for processes that see the same ones (ipc_namespaces(7)). */
function semaphoresOf(queue: DiskQueue, pid: number | 'self'): Promise<string | undefined> {
  return queue.run(() => readlink(`/proc/${pid}/ns/ipc`)).catch(() => undefined);
}
