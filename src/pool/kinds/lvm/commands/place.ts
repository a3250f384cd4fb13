import { access, constants, readlink } from 'node:fs/promises';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { udevAnswers } from './udev.ts';

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

/**
 * The host's LVM where there is one: it waits for the host's udev by a semaphore, and locks by files in /run/lock/lvm, and
 * both are of no use from another container. Else the LVM beside this driver. Either without udev where that does not answer.
 */
export async function findLvm(queue: DiskQueue): Promise<LvmRunner> {
  const host = (await isContained(queue)) ? await hostProgram(queue) : undefined;
  if (host !== undefined) {
    const into = ['mnt', 'ipc', 'uts'].map((name) => `--${namespaceOptions[name]}=/proc/1/ns/${name}`);
    const environment = environmentFor(await udevAnswers(queue, 1));
    return { place: 'host', program: 'nsenter', before: [...into, '--', host], environment };
  }
  const environment = environmentFor(await udevAnswers(queue, 'self'));
  return { place: 'own', program: 'lvm', before: [], environment };
}

/** Where udev does not answer, LVM makes the nodes that it needs itself, if it is told. */
function environmentFor(hasUdev: boolean): Readonly<Record<string, string>> {
  return hasUdev ? {} : { DM_DISABLE_UDEV: '1' };
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
