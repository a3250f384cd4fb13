import { access, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CommandError, run } from '../../../command/run.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { killProcess } from '../../../kernel/process/kill.ts';
import {
  isOfRoot,
  listProcesses,
  mountNamespaceOf,
  mountTableOf,
  processState,
  wordsOf,
} from '../../../kernel/process/process.ts';
import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';
import { hostProgram, hostRoot, intoHost, isContained } from '../../host-program.ts';
import type { GlusterContext } from './context.ts';
import type { ClientProcess } from './notes.ts';

/*
 * The client of GlusterFS is a process that serves a mount for as long as pods use it. So it is the host's program, in the
 * host's namespaces, and in a cgroup outside of the container of the driver, which may end at any time.
 */

export const clientPaths: readonly string[] = [
  '/usr/sbin/glusterfs',
  '/sbin/glusterfs',
  '/usr/bin/glusterfs',
  '/usr/local/sbin/glusterfs',
];
const systemdRunPaths = ['/usr/bin/systemd-run', '/bin/systemd-run'];

const missingClient =
  'this node has no GlusterFS client: install it there (glusterfs-client; Fedora, RHEL: glusterfs-fuse). In a container the driver must see the processes of the node (hostPID: true)';

/** The programs of this node that run clients. */
export interface ClientHost {
  readonly program: string;
  /** The words that bring a program into the host's namespaces; empty: it is there. */
  readonly before: readonly string[];
  /** The way into a cgroup that outlives the container: a scope of systemd, or a directory of cgroup 2. */
  readonly cgroups: { readonly systemdRun: string } | { readonly directory: string };
}

/** @throws FailedPrecondition if it cannot run them */
export async function requireClientHost(queue: DiskQueue, paths: readonly string[]): Promise<ClientHost> {
  const program = await hostProgram(queue, paths);
  if (program === undefined) throw new FailedPrecondition(`${missingClient}.`);
  const before = (await isContained(queue)) ? intoHost(['mnt', 'net', 'ipc', 'uts', 'cgroup']) : [];
  const systemdRun = (await isSystemd(queue)) ? await hostProgram(queue, systemdRunPaths) : undefined;
  if (systemdRun !== undefined) return { program, before, cgroups: { systemdRun } };
  const unified = (await mountTableOf(queue, 1)).find(({ fsType }) => fsType === 'cgroup2')?.target;
  if (unified !== undefined) return { program, before, cgroups: { directory: join(unified, 'holdfast-gluster') } };
  throw new FailedPrecondition(
    'this node has neither systemd nor cgroup 2: a GlusterFS client would end with the container of the driver, and take the volume from its pods.',
  );
}

/** The test of sd_booted(3). */
function isSystemd(queue: DiskQueue): Promise<boolean> {
  return queue
    .run(() => access(`${hostRoot}/run/systemd/system`))
    .then(
      () => true,
      () => false,
    );
}

/** A client that will be started. */
export interface ClientStart extends Pick<GlusterContext, 'options' | 'servers' | 'volume'> {
  /** A name for files and units about the volume. */
  readonly name: string;
  /** An empty directory, which the host sees at the same path. */
  readonly directory: string;
}

const purpose = '--process-name=fuse';

/** The words that start a client. @param unique other than in units that systemd has not let go of yet */
export function clientCommand(host: ClientHost, start: ClientStart, unique: string): readonly [string, ...string[]] {
  const { directory, name, options, servers, volume } = start;
  const client = [
    host.program,
    purpose,
    ...servers.map((server) => `--volfile-server=${server}`),
    `--volfile-id=${volume}`,
    // Otherwise close(2) does not wait until the data is on the bricks, and the next node could find it missing.
    '--xlator-option=*-write-behind.flush-behind=off',
    `--log-file=/var/log/glusterfs/holdfast-${volume}.log`,
    ...options,
    directory,
  ];
  const inCgroup =
    'systemdRun' in host.cgroups
      ? [host.cgroups.systemdRun, '--scope', '--quiet', '--collect', `--unit=holdfast-gluster-${name}-${unique}`, '--']
      : ['sh', '-c', intoCgroup, 'sh', cgroupOf(host.cgroups.directory, name)];
  const [first = host.program, ...rest] = [...host.before, ...inCgroup, ...client];
  return [first, ...rest];
}

const intoCgroup = 'mkdir -p "$1" && echo $$ >"$1/cgroup.procs" && shift && exec "$@"';

function cgroupOf(directory: string, name: string): string {
  return join(directory, name);
}

/** Longer than a client needs to try some servers; Kubernetes gives a call two minutes. */
const startTimeoutMs = 30_000;

/**
 * Starts a client. It is back when the mount is there, and the client goes on in the background.
 * @param lockPath held until then: a driver that died may have begun it
 * @throws Unavailable
 */
export async function startClient(
  host: ClientHost,
  start: ClientStart,
  { about, lockPath }: { readonly about: string; readonly lockPath: string },
): Promise<void> {
  const [program, ...args] = clientCommand(host, start, `${process.pid}-${Date.now()}`);
  try {
    await run(program, args, { inGroup: true, timeoutMs: startTimeoutMs, lockPath });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    const how =
      error.limit === 'time' ? `took more than ${startTimeoutMs / 1000} s` : `ended (${error.exitCode ?? 'killed'})`;
    throw new Unavailable(
      `${about}: glusterfs ${how}: is ${start.volume} a started volume there? See /var/log/glusterfs/holdfast-${start.volume}.log on the node.`,
    );
  }
}

/** Waits for the end of a start that a driver before this one has begun. @throws Unavailable */
export async function waitForStart(lockPath: string, about: string): Promise<void> {
  try {
    await run('true', [], { inGroup: true, timeoutMs: startTimeoutMs, lockPath });
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    throw new Unavailable(
      `${about}: a glusterfs that an earlier driver has started still mounts it. It is tried again.`,
    );
  }
}

/**
 * The clients that serve, or are about to serve, a directory of the host; never a process in a container.
 * @param noted one that is known without its words, which it loses before it ends
 */
export async function clientsAt(
  queue: DiskQueue,
  directory: string,
  noted: ClientProcess | undefined,
): Promise<ClientProcess[]> {
  const found = (await clientsOfHost(queue)).filter((client) => client.directory === directory);
  if (noted === undefined || found.some((client) => isSameClient(client, noted))) return found;
  return (await isRunning(queue, noted)) ? [noted, ...found] : found;
}

export function isSameClient(one: ClientProcess, other: ClientProcess | undefined): boolean {
  return one.pid === other?.pid && one.startTicks === other.startTicks;
}

/** All clients of the host, also those that are no driver's, and the directory that each serves. */
export async function clientsOfHost(queue: DiskQueue): Promise<(ClientProcess & { readonly directory: string })[]> {
  const host = await mountNamespaceOf(queue, 1);
  const found: (ClientProcess & { readonly directory: string })[] = [];
  for (const pid of await listProcesses(queue)) {
    const state = await processState(queue, pid);
    // Any user can name a process so; few do.
    if (state === undefined || state.isZombie || !state.command.startsWith('glusterfs')) continue;
    if ((await mountNamespaceOf(queue, pid)) !== host || !(await isOfRoot(queue, pid))) continue;
    const words = await wordsOf(queue, pid);
    const directory = words.at(-1);
    if (directory !== undefined && words.includes(purpose))
      found.push({ pid, startTicks: state.startTicks, directory });
  }
  return found;
}

export async function isRunning(queue: DiskQueue, { pid, startTicks }: ClientProcess): Promise<boolean> {
  const state = await processState(queue, pid);
  return state !== undefined && !state.isZombie && state.startTicks === startTicks;
}

/** A client ends with its last mount. One that waits for its servers, or whose mount some container has kept, is killed. */
const graceMs = 2_000;
const deathMs = 5_000;
const lookEveryMs = 50;

/**
 * @param requireUnused throws if what it serves is in use: asked last, as its mount may be used until then
 * @throws Unavailable if it does not even end when it is killed
 */
export async function endClient(
  queue: DiskQueue,
  client: ClientProcess,
  { about, requireUnused }: { readonly about: string; readonly requireUnused: () => Promise<unknown> },
): Promise<void> {
  if (await endsSoon(queue, client)) return;
  await killProcess(client.pid, async () => {
    await requireUnused();
    return isRunning(queue, client);
  });
  if (await hasEnded(queue, client, deathMs)) return;
  throw new Unavailable(`${about}: its glusterfs, process ${client.pid}, does not end. It is tried again.`);
}

/** Answers if a client without a mount ends without a signal. */
export function endsSoon(queue: DiskQueue, client: ClientProcess): Promise<boolean> {
  return hasEnded(queue, client, graceMs);
}

async function hasEnded(queue: DiskQueue, client: ClientProcess, withinMs: number): Promise<boolean> {
  const endMs = performance.now() + withinMs;
  while (await isRunning(queue, client)) {
    if (performance.now() >= endMs) return false;
    await delay(lookEveryMs);
  }
  return true;
}

/** Removes the cgroup that this driver has made for a volume, without processes. Those of systemd go automatically. */
export async function removeCgroup(queue: DiskQueue, name: string): Promise<void> {
  const unified = (await mountTableOf(queue, 1)).find(({ fsType }) => fsType === 'cgroup2')?.target;
  if (unified === undefined) return;
  const directory = `${hostRoot}${join(unified, 'holdfast-gluster')}`;
  // Threads of a client that has ended are in it for a moment.
  const endMs = performance.now() + deathMs;
  while (!(await isRemoved(queue, cgroupOf(directory, name))) && performance.now() < endMs) await delay(lookEveryMs);
  // Other volumes have theirs in it.
  await isRemoved(queue, directory);
}

async function isRemoved(queue: DiskQueue, cgroup: string): Promise<boolean> {
  try {
    await queue.run(() => rmdir(cgroup));
    return true;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return true;
    if (isErrno(error, 'EBUSY', 'ENOTEMPTY')) return false;
    throw error;
  }
}
