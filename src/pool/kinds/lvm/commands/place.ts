import { access, constants, readlink, stat } from 'node:fs/promises';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';

/** Where LVM runs. host: in the host's namespaces, with its udev and its locks. own: as this driver's, beside it. */
export type LvmPlace = 'host' | 'own';

export interface LvmRunner {
  readonly place: LvmPlace;
  /** The program, and what stands before the arguments of LVM. */
  readonly program: string;
  readonly before: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

const hostRoot = '/proc/1/root';
const hostPrograms = ['/usr/sbin/lvm', '/sbin/lvm'];
/** There as long as udevd is at work (systemd-udevd.service(8)). */
const udevSocket = '/run/udev/control';

/**
 * The host's LVM where there is one: it waits for the host's udev by a semaphore, and locks by files in /run/lock/lvm, and
 * both are of no use from another container. Else the LVM beside this driver; without udev, which nobody would answer for,
 * unless it is at work here.
 */
export async function findLvm(queue: DiskQueue): Promise<LvmRunner> {
  const host = (await isContained(queue)) ? await hostProgram(queue) : undefined;
  if (host !== undefined) {
    const into = ['mnt', 'ipc', 'uts'].map((name) => `--${namespaceOptions[name]}=/proc/1/ns/${name}`);
    return { place: 'host', program: 'nsenter', before: [...into, '--', host], environment: {} };
  }
  const hasUdev = await exists(queue, udevSocket);
  return { place: 'own', program: 'lvm', before: [], environment: hasUdev ? {} : { DM_DISABLE_UDEV: '1' } };
}

const namespaceOptions: Readonly<Record<string, string>> = { mnt: 'mount', ipc: 'ipc', uts: 'uts' };

/** Whether process 1 is another one's: in a container that sees the host's processes, it is the host's. */
async function isContained(queue: DiskQueue): Promise<boolean> {
  const [own, first] = await Promise.all(
    ['self', '1'].map((pid) => queue.run(() => readlink(`/proc/${pid}/ns/mnt`)).catch(() => undefined)),
  );
  return own !== undefined && first !== undefined && own !== first;
}

async function hostProgram(queue: DiskQueue): Promise<string | undefined> {
  for (const program of hostPrograms) {
    const isThere = await queue
      .run(() => access(hostRoot + program, constants.X_OK))
      .then(
        () => true,
        () => false,
      );
    if (isThere) return program;
  }
  return undefined;
}

async function exists(queue: DiskQueue, path: string): Promise<boolean> {
  return queue
    .run(() => stat(path))
    .then(
      () => true,
      () => false,
    );
}
