import { mkdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CommandError, run } from '../../../command/run.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { type DeviceNumber, sameDevice } from '../../../kernel/device.ts';
import { component, openBeneath, openDirectory, statusOf } from '../../../kernel/file/path.ts';
import { abortConnection } from '../../../kernel/mount/fuse.ts';
import { unmount, unmountNow, unmountPatiently } from '../../../kernel/mount/mount.ts';
import { type Mount, mountAt, readMountTable } from '../../../kernel/mount/mount-table.ts';
import { FailedPrecondition, NotFound, Unavailable } from '../../../volume/errors.ts';
import type { TurnsByKey } from '../../../volume/flow/turns.ts';
import { withTimeout } from '../../../volume/flow/with-timeout.ts';
import { fileNameOf, type VolumeHandle } from '../../../volume/handle.ts';
import { step } from '../../../volume/step.ts';
import { abnormal } from '../../condition.ts';
import { seesHost } from '../../host-program.ts';
import type { PoolLog } from '../../log.ts';
import { reachPortal } from '../../network-disk/reach-portal.ts';
import type { NodeSide, NodeSideContext, UnmountPlace, VolumeOnNode } from '../../node-side.ts';
import type { Attached, Attachment, Condition, QuotaUsage } from '../../pool.ts';
import {
  clientsAt,
  endClient,
  isRunning,
  removeCgroup,
  requireClientHost,
  startClient,
  waitForStart,
} from './client.ts';
import { nameOf, parseGlusterContext } from './context.ts';
import { type Ending, requireEnding, requireNoFiles, silent } from './ending.ts';
import { fuseType, type GlusterNote, type GlusterNotes, isNoted } from './notes.ts';

/** This node, for volumes on GlusterFS. */
export interface GlusterNode {
  readonly notes: GlusterNotes;
  /** By handle. They outlive a queue that hung. */
  readonly turns: TurnsByKey<VolumeHandle>;
  readonly locksDirectory: string;
  /** In the kubelet's directory, which the host and the container see at the same path. */
  readonly mountsDirectory: string;
  /** The client's program on the host, the first that is there. */
  readonly clientPaths: readonly string[];
  readonly log: PoolLog;
}

/** The port of glusterd, which knows the bricks. */
const glusterdPort = '24007';
/** A stage waits this long for the bricks. */
const openWithinMs = 15_000;
/** Statistics wait for it: a volume that says nothing for 3 s is called silent. */
const askWithinMs = 2_000;

/** @returns why no server can be reached; undefined: one can. The ones that can are the first then */
export async function reachable(servers: readonly string[]): Promise<readonly string[] | { readonly why: string }> {
  const failures = await Promise.all(servers.map((address) => reachPortal({ address, port: glusterdPort })));
  const isReached = (_: string, index: number) => failures[index] === undefined;
  const reached = servers.filter(isReached);
  if (reached.length === 0) {
    const more = servers.length === 1 ? '' : ` (and ${servers.length - 1} more)`;
    return { why: `cannot be reached: ${failures[0]}${more}` };
  }
  return [...reached, ...servers.filter((server) => !reached.includes(server))];
}

/** One volume on GlusterFS, with a client that serves it alone: no other volume waits for it. */
export class GlusterSide implements NodeSide {
  readonly name: string;
  readonly #node: GlusterNode;
  /** For processes, mount tables and files of the node, which wait for no server. */
  readonly #host: DiskQueue;
  /** For looks into the volume, which may hang. */
  readonly #inside: DiskQueue;
  #isSettled = false;
  /** Looks that are under way, by their paths: another path may lead into another filesystem. */
  readonly #looks = new Map<string, Promise<string | undefined>>();

  constructor(node: GlusterNode, { queue, server }: NodeSideContext) {
    this.#node = node;
    this.#host = queue.beside('host', 1, true);
    this.#inside = queue.beside('inside', 1);
    this.name = `GlusterFS ${server}`;
  }

  attach(volume: VolumeOnNode): Promise<Attachment> {
    return this.#node.turns.run(volume.handle, async () => {
      await this.#settle(volume);
      if (!(await this.#isServed(volume))) await this.#bringUp(volume);
      const failure = await this.#ask(volume, openWithinMs);
      if (failure !== undefined) throw new Unavailable(`${aboutOf(volume)}: ${failure}`);
      const descriptor = await this.#open(volume);
      return { ...this.#attachedAt(volume), descriptor, release: () => descriptor[Symbol.asyncDispose]() };
    });
  }

  async attached(volume: VolumeOnNode): Promise<Attached[]> {
    const mount = await mountAt(this.#host, this.#directoryOf(volume));
    return mount !== undefined && isNoted(this.#noteOf(volume), mount) ? [this.#attachedAt(volume)] : [];
  }

  async detach(volume: VolumeOnNode): Promise<void> {
    await this.forget(volume);
  }

  forget(volume: VolumeOnNode): Promise<void> {
    return this.#node.turns.run(volume.handle, async () => {
      if (!(await this.#isLeft(volume))) return;
      await this.#settle(volume);
      await this.#takeDown(volume, false);
      await this.#host.run(() => rm(this.#lockOf(volume), { force: true }));
      await this.#node.notes.remove(volume.handle);
    });
  }

  /**
   * Its filesystem has nothing to write back, so the kernel waits for no server. A mount that is in use although nothing can be
   * read from it is taken out of sight.
   */
  async unmount(volume: VolumeOnNode, { mount, name, parent }: UnmountPlace): Promise<void> {
    const target = parent.child(component(parent, name));
    const where = `${parent.path}/${name}`;
    try {
      await this.#host.rescue((queue) => unmountPatiently(queue, target, where));
    } catch (error) {
      if (!isErrno(error, 'EBUSY')) throw error;
      const isDead = await this.isLost(volume, mount);
      // Lost are the files that processes still write: a cluster that is only slow must have its time.
      if (!isDead && (await this.#ask(volume, openWithinMs)) === undefined) throw error;
      await this.#host.rescue((queue) => unmountNow(queue, target, where, ['detach']));
    }
  }

  /** Asks the servers first: statfs(2) waits for bricks that are gone. */
  async quotaUsage(volume: VolumeOnNode): Promise<QuotaUsage | undefined> {
    const failure = await this.#ask(volume, askWithinMs);
    if (failure === undefined) return undefined;
    throw new Unavailable(`${aboutOf(volume)}: ${failure}`);
  }

  async isAnswering(volume: VolumeOnNode): Promise<boolean> {
    return !('why' in (await reachable(parseGlusterContext(volume.context).servers)));
  }

  async isLost(volume: VolumeOnNode, { device }: Pick<Mount, 'device'>): Promise<boolean> {
    const { client, mounts: [current] = [] } = this.#noteOf(volume) ?? {};
    if (current === undefined) return false;
    if (sameDevice(current, device) && client !== undefined && (await isRunning(this.#host, client))) return false;
    // A driver that does not see the host sees no client either.
    return seesHost(this.#host);
  }

  async condition(volume: VolumeOnNode): Promise<Condition> {
    if (!(await this.#isServed(volume))) return abnormal(clientEnded);
    const failure = await this.#ask(volume, askWithinMs);
    if (failure === undefined) return { abnormal: false, message: 'The bricks of this volume answer.' };
    return abnormal(`The pods of this volume wait or fail: ${failure}`);
  }

  /** A driver before this one may have begun a start, whose client is not there yet. */
  async #settle(volume: VolumeOnNode): Promise<void> {
    if (!this.#isSettled && this.#noteOf(volume) !== undefined) {
      await waitForStart(this.#lockOf(volume), aboutOf(volume));
    }
    this.#isSettled = true;
  }

  async #isServed(volume: VolumeOnNode): Promise<boolean> {
    const mount = await mountAt(this.#host, this.#directoryOf(volume));
    return mount !== undefined && isNoted(this.#noteOf(volume), mount) && !(await this.isLost(volume, mount));
  }

  async #bringUp(volume: VolumeOnNode): Promise<void> {
    const { notes } = this.#node;
    const { handle } = volume;
    const about = aboutOf(volume);
    const directory = this.#directoryOf(volume);
    const context = parseGlusterContext(volume.context);
    const servers = await reachable(context.servers);
    if ('why' in servers) throw new Unavailable(`${about}: GlusterFS ${servers.why}.`);
    // Before anything is undone.
    const host = await requireClientHost(this.#host, this.#node.clientPaths);
    const earlier = await this.#stillMounted(volume);
    await this.#takeDown(volume, true);
    await notes.begin(handle, earlier);
    await this.#host.run(() => mkdir(directory, { recursive: true, mode: 0o700 }));
    const start = { ...context, servers, name: fileNameOf(handle), directory };
    await step('gluster/start', () => startClient(host, start, { about, lockPath: this.#lockOf(volume) }));
    const [client] = await clientsAt(this.#host, directory, undefined);
    const mount = await mountAt(this.#host, directory);
    if (client === undefined) throw new Unavailable(`${about}: its glusterfs has ended at once. It is tried again.`);
    if (mount?.fsType !== fuseType) {
      throw new FailedPrecondition(
        `${about}: the node has it mounted, and the driver does not see that: mount the kubelet's directory with mountPropagation Bidirectional.`,
      );
    }
    await notes.complete(handle, client, { major: mount.device.major, minor: mount.device.minor });
  }

  /** Filesystems of clients before, which pods still have. */
  async #stillMounted(volume: VolumeOnNode): Promise<readonly DeviceNumber[]> {
    const table = await readMountTable(this.#host);
    const others = table.filter(({ target }) => target !== this.#directoryOf(volume));
    const mounts = this.#noteOf(volume)?.mounts ?? [];
    return mounts.filter((number) => others.some(({ device }) => sameDevice(device, number)));
  }

  /** Answers if there is anything of a volume: its mount may be gone, and its note lost. */
  async #isLeft(volume: VolumeOnNode): Promise<boolean> {
    const directory = this.#directoryOf(volume);
    if (this.#noteOf(volume) !== undefined || (await mountAt(this.#host, directory)) !== undefined) return true;
    return (await clientsAt(this.#host, directory, undefined)).length > 0;
  }

  /** @throws Unavailable, FailedPrecondition if the volume is in use; then nothing is undone */
  async #takeDown(volume: VolumeOnNode, mayHavePods: boolean): Promise<void> {
    const about = aboutOf(volume);
    const directory = this.#directoryOf(volume);
    const ask = (path: string) => this.#ask(volume, openWithinMs, path);
    const note = this.#noteOf(volume);
    const isBegun = this.#node.notes.isBegun(volume.handle);
    const ending = await requireEnding(this.#host, { about, ask, directory, isBegun, mayHavePods, note });
    // Processes that wait for an answer to a request that the client has read cannot be killed.
    for (const { filesystem, path } of ending.silent) await abortConnection(this.#host, path, filesystem);
    await this.#unmountOwn(volume, ending);
    const requireUnused = () => requireNoFiles(this.#host, { about, ask, served: ending.served });
    for (const client of ending.clients) {
      await step('gluster/end', () => endClient(this.#host, client, { about, requireUnused }));
    }
    await removeCgroup(this.#host, fileNameOf(volume.handle));
    for (const path of [directory, dirname(directory)]) {
      await this.#host
        .run(() => rmdir(path))
        .catch((error: unknown) => {
          if (!isErrno(error, 'ENOENT', 'ENOTEMPTY')) throw error;
        });
    }
  }

  /** All mounts at the driver's own place. */
  async #unmountOwn(volume: VolumeOnNode, { clients, failure, top }: Ending): Promise<void> {
    const directory = this.#directoryOf(volume);
    let why = failure;
    for (let mount = top; mount !== undefined; ) {
      const isAnswering = clients.length > 0 && why === undefined;
      await step('gluster/unmount', () => this.#unmountTop(volume, isAnswering));
      mount = await mountAt(this.#host, directory);
      if (mount === undefined || clients.length === 0) continue;
      why = await this.#ask(volume, openWithinMs);
      if (why === silent) await abortConnection(this.#host, directory, mount.device);
    }
  }

  /** Calls that wait for the servers have it open. They end with the client, which is killed next. */
  async #unmountTop(volume: VolumeOnNode, isAnswering: boolean): Promise<void> {
    const directory = this.#directoryOf(volume);
    try {
      await unmount(this.#host, directory);
    } catch (error) {
      if (!isErrno(error, 'EBUSY')) throw error;
      if (isAnswering) {
        throw new Unavailable(`${aboutOf(volume)}: a process of this node uses ${directory}: end it first.`);
      }
      await unmountNow(this.#host, directory, directory, ['detach']);
    }
  }

  /**
   * Looks at the bricks as statfs(2) does, in a process: it can be killed while the client does not listen, which a thread
   * cannot. One whose request the client has read waits until the answer, or until the connection is aborted: no second
   * look at that path begins before. @returns why the volume cannot be used, as a sentence
   */
  async #ask(volume: VolumeOnNode, timeoutMs: number, path = this.#directoryOf(volume)): Promise<string | undefined> {
    const look = this.#looks.get(path) ?? lookAt(path).finally(() => this.#looks.delete(path));
    this.#looks.set(path, look);
    const answer = await withTimeout(timeoutMs, look);
    return answer === 'late' ? silent : answer;
  }

  /** A link in the volume cannot lead out of it: none is followed, and the kernel goes nowhere above the mount's root. */
  async #open(volume: VolumeOnNode): Promise<Descriptor> {
    const { directory } = parseGlusterContext(volume.context);
    const opening = this.#openBeneath(volume, directory);
    const found = await withTimeout(openWithinMs, opening);
    if (found !== 'late') return found;
    opening.then(
      (late) => late[Symbol.asyncDispose](),
      () => undefined,
    );
    throw new Unavailable(`${aboutOf(volume)}: its servers do not answer. It is tried again.`);
  }

  async #openBeneath(volume: VolumeOnNode, directory: string): Promise<Descriptor> {
    const where = nameOf(parseGlusterContext(volume.context));
    await using whole = await openDirectory(this.#inside, this.#directoryOf(volume));
    const [current] = this.#noteOf(volume)?.mounts ?? [];
    // A glusterfs that ends unmounts itself: below the mount is a directory of the node's own disk.
    if (!sameDevice((await statusOf(this.#inside, whole)).device, current)) {
      throw new Unavailable(`${aboutOf(volume)}: its glusterfs has ended meanwhile. It is tried again.`);
    }
    const found = await openBeneath(this.#inside, whole, directory).catch((error: unknown) => {
      if (isErrno(error, 'ENOENT'))
        throw new NotFound(`${aboutOf(volume)}: there is no ${where}: make the directory first.`);
      if (isErrno(error, 'ELOOP', 'EXDEV', 'ENOTDIR')) throw this.#notADirectory(volume);
      throw error;
    });
    if ((await statusOf(this.#inside, found)).kind === 'directory') return found;
    await found[Symbol.asyncDispose]();
    throw this.#notADirectory(volume);
  }

  #notADirectory(volume: VolumeOnNode): FailedPrecondition {
    return new FailedPrecondition(
      `${aboutOf(volume)}: ${nameOf(parseGlusterContext(volume.context))} is, or leads through, a symbolic link or a file. No link is followed.`,
    );
  }

  #noteOf({ handle }: VolumeOnNode): GlusterNote | undefined {
    return this.#node.notes.read(handle);
  }

  #directoryOf({ handle }: VolumeOnNode): string {
    return join(this.#node.mountsDirectory, fileNameOf(handle), 'gluster');
  }

  #lockOf({ handle }: VolumeOnNode): string {
    return join(this.#node.locksDirectory, `${fileNameOf(handle)}.lock`);
  }

  #attachedAt(volume: VolumeOnNode): Extract<Attached, { kind: 'directory' }> {
    const path = this.#directoryOf(volume);
    return { kind: 'directory', path, keptAt: [path] };
  }
}

async function lookAt(path: string): Promise<string | undefined> {
  try {
    await run('stat', ['--file-system', path], { timeoutMs: openWithinMs });
    return undefined;
  } catch (error) {
    // A look that could not be made says nothing about the volume.
    if (!(error instanceof CommandError) || (error.limit === undefined && error.exitCode === undefined)) throw error;
    return error.limit === 'time' ? silent : `its bricks do not answer (${lastWords(error)}).`;
  }
}

/** The error's own words, as stat(1) ends with them. */
function lastWords({ stderr }: CommandError): string {
  return stderr.trim().split(': ').at(-1)?.slice(0, 50) ?? 'no reason';
}

const clientEnded = 'The glusterfs process of this volume has ended: end its pods, new ones get a new mount.';

function aboutOf({ handle }: Pick<VolumeOnNode, 'handle'>): string {
  return `volume ${handle}`;
}
