import { access, constants, readlink } from 'node:fs/promises';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { seesAllProcesses } from '../kernel/process/process.ts';

/** The root directory of the host, for a container that sees the host's processes. */
export const hostRoot = '/proc/1/root';

const namespaceOptions = { mnt: 'mount', ipc: 'ipc', uts: 'uts', net: 'net', cgroup: 'cgroup' } as const;

/** The words that run a program of the host in namespaces of the host: nsenter(1). */
export function intoHost(namespaces: readonly (keyof typeof namespaceOptions)[]): readonly [string, ...string[]] {
  return ['nsenter', ...namespaces.map((name) => `--${namespaceOptions[name]}=/proc/1/ns/${name}`), '--'];
}

/** True if process 1 is another container's: in a container that sees the host's processes, it is the host's. */
export async function isContained(queue: DiskQueue): Promise<boolean> {
  const [own, first] = await Promise.all(
    ['self', '1'].map((pid) => queue.run(() => readlink(`/proc/${pid}/ns/mnt`)).catch(() => undefined)),
  );
  return own !== undefined && first !== undefined && own !== first;
}

/** Answers if /proc has the processes of the host: this process is in no container, or in one with hostPID. */
export async function seesHost(queue: DiskQueue): Promise<boolean> {
  return (await isContained(queue)) || (await seesAllProcesses(queue));
}

/** The first of these paths that is a program of the host. */
export async function hostProgram(queue: DiskQueue, paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) {
    const isThere = await queue
      .run(() => access(hostRoot + path, constants.X_OK))
      .then(
        () => true,
        () => false,
      );
    if (isThere) return path;
  }
  return undefined;
}
