import { mkdir, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { isAtOrBelow } from '../../../kernel/mount/directory-root.ts';
import { accessModes } from '../../../volume/capability.ts';
import { InternalError, InvalidArgument } from '../../../volume/errors.ts';
import { TurnsByKey } from '../../../volume/flow/turns.ts';
import { fileNameOf, type VolumeHandle } from '../../../volume/handle.ts';
import type { PoolLog } from '../../log.ts';
import type { NodeKind } from '../../node-side.ts';
import { clientsOfHost, isRunning, clientPaths as usualPaths } from './client.ts';
import { glusterKeys, parseGlusterContext } from './context.ts';
import { GlusterNotes, isNoted } from './notes.ts';
import type { GlusterNode } from './side.ts';

/**
 * Volumes on GlusterFS that a PersistentVolume names.
 * @param node undefined: contexts are only read here
 */
export function glusterNodeKind(node: GlusterNode | undefined): NodeKind {
  return {
    name: 'gluster',
    traits: { detaching: 'explicit', accessModes },
    namingKeys: ['servers', 'volume'],
    keys: glusterKeys,
    read(context, { access }) {
      parseGlusterContext(context);
      if (access === 'mount') return { content: { type: 'directory' } };
      throw new InvalidArgument('A volume on GlusterFS is a directory: it has no raw block device.');
    },
    shows({ context, handle }, { mount }) {
      if (mount === undefined || !isNoted(node?.notes.read(handle), mount)) return undefined;
      const { directory } = parseGlusterContext(context);
      const root = `/${directory}`;
      // A directory that was renamed since is the volume, too.
      return mount.root !== root && isAtOrBelow(mount.root, root) ? 'part' : 'whole';
    },
    isOwnMount: (target) => node !== undefined && isAtOrBelow(target, node.mountsDirectory),
    serverOf: ({ context }) => parseGlusterContext(context).servers.join(','),
    // Each volume has its own client.
    fateOf: ({ handle }) => handle,
    async askServer({ context }) {
      const { reachable } = await import('./side.ts');
      const reached = await reachable(parseGlusterContext(context).servers);
      return 'why' in reached ? reached.why : undefined;
    },
    async checkNode(queue) {
      const { checkNode } = await import('./check-node.ts');
      return checkNode(queue);
    },
    async open(context) {
      if (node === undefined) throw new InternalError('volumes on GlusterFS are mounted on nodes.');
      const { GlusterSide } = await import('./side.ts');
      return new GlusterSide(node, context);
    },
  };
}

export interface GlusterNodeOptions {
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  readonly mountsDirectory: string;
  readonly clientPaths?: readonly string[];
  readonly queue: DiskQueue;
  readonly log: PoolLog;
}

/** Opens what this node knows of such volumes. */
export async function openGlusterNode({
  clientPaths = usualPaths,
  dataDirectory,
  log,
  mountsDirectory,
  queue,
}: GlusterNodeOptions): Promise<GlusterNode> {
  const directory = join(dataDirectory, 'gluster');
  const locksDirectory = join(directory, 'locks');
  const notes = await GlusterNotes.open(directory, queue, log);
  await queue.run(() => mkdir(locksDirectory, { recursive: true, mode: 0o700 }));
  const node = {
    notes,
    turns: new TurnsByKey<VolumeHandle>(),
    locksDirectory,
    mountsDirectory: await queue.run(() => resolved(mountsDirectory)),
    clientPaths,
    log,
  };
  // The start waits for no process.
  reportUnknown(node).catch((err: unknown) => log.warn({ err }, 'cannot look for clients of GlusterFS'));
  return node;
}

/** A client whose note is lost may serve pods, so it is not ended. */
async function reportUnknown({ log, mountsDirectory, notes }: GlusterNode): Promise<void> {
  const queue = new DiskQueue('gluster clients', 1);
  for (const client of await clientsOfHost(queue)) {
    const { directory, pid } = client;
    if (!isAtOrBelow(directory, mountsDirectory)) continue;
    const isNoted = notes.handles().some((handle) => basename(dirname(directory)) === fileNameOf(handle));
    // One that ended meanwhile has lost its note, too.
    if (isNoted || !(await isRunning(queue, client))) continue;
    log.warn({ pid, directory }, 'a glusterfs of this driver has no note: end it when no pod uses its volume');
  }
}

/** The path as the mount table has it, whose end need not be there yet: the kubelet's directory may be a symbolic link. */
async function resolved(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (!isErrno(error, 'ENOENT') || dirname(path) === path) throw error;
    return join(await resolved(dirname(path)), basename(path));
  }
}
