import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { type DeviceNumber, sameDevice } from '../../../kernel/device.ts';
import { type Mount, readMountTable } from '../../../kernel/mount/mount-table.ts';
import { mountsElsewhere } from '../../../kernel/process/mounts-elsewhere.ts';
import { type HeldFile, heldFiles, listProcesses } from '../../../kernel/process/process.ts';
import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';
import { seesHost } from '../../host-program.ts';
import { clientsAt, endsSoon, isSameClient } from './client.ts';
import { type ClientProcess, fuseType, type GlusterNote, isNoted } from './notes.ts';

/** The answer of a filesystem that says nothing. */
export const silent = 'its servers do not answer.';

/** A volume whose clients must end. */
export interface Sought {
  readonly about: string;
  /** The driver's own place for its mount. */
  readonly directory: string;
  readonly note: GlusterNote | undefined;
  /** A start may have been cut short, whose client the note does not name. */
  readonly isBegun: boolean;
  /** At an unstage, Kubernetes has ended the pods: a mount that some container has kept is no use. */
  readonly mayHavePods: boolean;
  /** Looks at the filesystem behind a path. @returns why it cannot be used */
  readonly ask: (path: string) => Promise<string | undefined>;
}

/** Clients that may be ended, and their mounts. */
export interface Ending {
  readonly clients: readonly ClientProcess[];
  /** Filesystems that they serve. */
  readonly served: readonly DeviceNumber[];
  /** The uppermost mount at the driver's own place. */
  readonly top: Mount | undefined;
  /** The reason why that one cannot be used, if there is a client. */
  readonly failure: string | undefined;
  readonly silent: readonly SilentPlace[];
}

/** A path into a filesystem that says nothing. */
export interface SilentPlace {
  readonly path: string;
  readonly filesystem: DeviceNumber;
}

/**
 * The one door before a client is ended or a mount of the driver undone: nothing has changed when it throws.
 * @throws Unavailable, FailedPrecondition if something still uses the volume, or that cannot be known
 */
export async function requireEnding(queue: DiskQueue, sought: Sought): Promise<Ending> {
  const { about, ask, directory, isBegun, mayHavePods, note } = sought;
  if (!(await seesHost(queue))) {
    throw new Unavailable(
      `${about}: the driver does not see the processes of this node, so it undoes nothing: its pod needs hostPID: true.`,
    );
  }
  const found = await clientsAt(queue, directory, note?.client);
  const table = await readMountTable(queue);
  const mounts = table.filter(({ target }) => target === directory).toReversed();
  const [top] = mounts;
  // Only the driver's own mount shows which filesystem such a client serves.
  const isKnown = isBegun || mounts.some((mount) => mount.fsType === fuseType && !isNoted(note, mount));
  const clients: ClientProcess[] = [];
  for (const client of found) {
    const mayEnd = isKnown || isSameClient(client, note?.client);
    if (mayEnd) clients.push(client);
    else if (!(await endsSoon(queue, client))) {
      throw new FailedPrecondition(
        `${about}: process ${client.pid}, a glusterfs, serves it without a note, and its mount for the driver is gone: end it when no pod uses it.`,
      );
    }
  }
  if (clients.length === 0) return { clients, served: [], top, failure: undefined, silent: [] };
  const [current] = note?.mounts ?? [];
  const isCurrent = current !== undefined && clients.some((client) => isSameClient(client, note?.client));
  const own = mounts.map(({ device }) => device);
  const served = isCurrent && !own.some((each) => sameDevice(each, current)) ? [...own, current] : own;
  if (mayHavePods && (await areMounted(table, served, directory))) {
    throw new FailedPrecondition(
      `${about}: its mount for the driver is gone, and pods still use the volume: end them first.`,
    );
  }
  const failure = top && (await ask(directory));
  const isDead = (number: DeviceNumber) => failure !== undefined && sameDevice(number, top?.device);
  const others = await requireNoFiles(queue, { ...sought, served: served.filter((number) => !isDead(number)) });
  const here = failure === silent && top !== undefined ? [{ path: directory, filesystem: top.device }] : [];
  return { clients, served, top, failure, silent: [...here, ...others] };
}

/** Answers if one of the filesystems is mounted in any other place, in any mount namespace. */
async function areMounted(
  table: readonly Mount[],
  numbers: readonly DeviceNumber[],
  directory: string,
): Promise<boolean> {
  for (const number of numbers) {
    const mounts = [...table, ...(await mountsElsewhere(` ${number.major}:${number.minor} `))];
    // A container that shows the node's files has copies of the driver's own mount below another path.
    if (mounts.some(({ device, target }) => sameDevice(device, number) && !target.endsWith(directory))) return true;
  }
  return false;
}

/**
 * A client that is killed loses what processes have written and not synced. One that does not answer has lost it already.
 * @returns where processes that have files open wait for one that says nothing
 * @throws Unavailable if a process has files open
 */
export async function requireNoFiles(
  queue: DiskQueue,
  { about, ask, served }: Pick<Sought, 'about' | 'ask'> & Pick<Ending, 'served'>,
): Promise<readonly SilentPlace[]> {
  const found: SilentPlace[] = [];
  for (const filesystem of served) {
    for (let user = await userOf(queue, filesystem); user !== undefined; user = await userOf(queue, filesystem)) {
      // The driver's own mount may be gone: the process still has a way in.
      const failure = await ask(user.link);
      if (failure === undefined) {
        throw new Unavailable(`${about}: process ${user.pid} of this node still has its files open: end it first.`);
      }
      // A process that has closed it meanwhile says nothing about the others.
      if ((await fileOf(queue, user.pid, filesystem)) !== user.link) continue;
      if (failure === silent) found.push({ path: user.link, filesystem });
      break;
    }
  }
  return found;
}

/** A process, not this one, that has a file of a filesystem open, and the link to that. */
async function userOf(
  queue: DiskQueue,
  filesystem: DeviceNumber,
): Promise<{ readonly pid: number; readonly link: string } | undefined> {
  for (const pid of (await listProcesses(queue)).filter((each) => each !== process.pid)) {
    const link = await fileOf(queue, pid, filesystem);
    if (link !== undefined) return { pid, link };
  }
  return undefined;
}

/** The link to the first file of a filesystem that a process has open. */
async function fileOf(queue: DiskQueue, pid: number, filesystem: DeviceNumber): Promise<string | undefined> {
  const isOpen = ({ link, status }: HeldFile) => link.includes('/fd/') && sameDevice(filesystem, status?.device);
  return (await heldFiles(queue, pid)).find(isOpen)?.link;
}
