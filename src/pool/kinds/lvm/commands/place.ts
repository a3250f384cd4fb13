import { readlink, stat } from 'node:fs/promises';
import { CommandError } from '../../../../command/run.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { listProcesses, processState } from '../../../../kernel/process/process.ts';
import { hostProgram, hostRoot, intoHost, isContained } from '../../../host-program.ts';
import { isTooOld, versionOf } from './version.ts';

/** Where LVM runs. host: in the host's namespaces, with its udev and its locks. own: as this driver's, beside it. */
export type LvmPlace = 'host' | 'own';

export interface LvmRunner {
  readonly place: LvmPlace;
  /** The program, and what stands before the arguments of LVM. */
  readonly program: string;
  readonly before: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** The directory of its locks, if not the default. */
  readonly lockDirectory?: string | undefined;
}

/** LVM's default (locking_dir of lvm.conf(5)). */
export const lockDirectory = '/run/lock/lvm';
const hostPrograms = ['/usr/sbin/lvm', '/sbin/lvm'];

/**
 * The host's LVM where there is one: it waits for the host's udev by a semaphore, and locks by files in /run/lock/lvm, and
 * both are of no use from another container. Else the LVM beside this driver. Either without udev where that does not answer.
 */
export async function findLvm(queue: DiskQueue): Promise<LvmRunner> {
  const host = (await isContained(queue)) ? await hostProgram(queue, hostPrograms) : undefined;
  if (host !== undefined) {
    const [program, ...into] = intoHost(['mnt', 'ipc', 'uts']);
    const environment = environmentFor(await udevAnswers(queue, 1));
    const runner = { place: 'host', program, before: [...into, host], environment } as const;
    return newEnough(runner, () => ownBeside(queue));
  }
  const environment = environmentFor(await udevAnswers(queue, 'self'));
  return { place: 'own', program: 'lvm', before: [], environment };
}

/** The driver's own LVM. It keeps out of the way of the host's by the host's locks. */
async function ownBeside(queue: DiskQueue): Promise<LvmRunner> {
  const environment = environmentFor(await udevAnswers(queue, 'self'));
  return { place: 'own', program: 'lvm', before: [], environment, lockDirectory: hostRoot + lockDirectory };
}

/**
 * The host's LVM, unless it cannot run at all or is too old, and the driver's own is not. The own one has other settings,
 * other locks and no udev: an LVM that fails to tell its version, on a node without memory for example, does not count
 * as old.
 * @throws CommandError if the version of the host's cannot be read
 */
export async function newEnough(host: LvmRunner, own: () => Promise<LvmRunner>): Promise<LvmRunner> {
  const version = await versionOf(host).catch(ignoreUnstarted);
  if (version !== undefined && !isTooOld(version)) return host;
  const beside = await own();
  const ownVersion = await versionOf(beside).catch(ignoreFailed);
  return ownVersion === undefined || isTooOld(ownVersion) ? host : beside;
}

/** Exit codes of a program that cannot be executed, or misses a library: nsenter(1), ld.so(8). That does not pass. */
const unstartedExitCodes = [126, 127];

function ignoreFailed(error: unknown): undefined {
  if (error instanceof CommandError) return undefined;
  throw error;
}

function ignoreUnstarted(error: unknown): undefined {
  if (error instanceof CommandError && unstartedExitCodes.includes(error.exitCode ?? 0)) return undefined;
  throw error;
}

/** Where udev does not answer, this makes LVM create the nodes that it needs. */
function environmentFor(hasUdev: boolean): Readonly<Record<string, string>> {
  return hasUdev ? {} : { DM_DISABLE_UDEV: '1' };
}

/** It exists as long as udevd runs (systemd-udevd.service(8)). */
const controlSocket = 'run/udev/control';
const daemons: readonly (string | undefined)[] = ['systemd-udevd', 'udevd'];

/**
 * True if udev would answer an LVM that runs where that process does. LVM waits for it by a semaphore, which both must see: it
 * is not enough that a container has /run/udev of the node, for then it waits for ever.
 */
async function udevAnswers(queue: DiskQueue, beside: 1 | 'self'): Promise<boolean> {
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
