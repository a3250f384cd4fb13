import { chmod } from 'node:fs/promises';
import { populateFromGit } from '../../command/git.ts';
import type { GitSource } from '../../command/git-source.ts';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { removeDirectoryAt } from '../../kernel/file/path.ts';
import { mountDetached, placeMount } from '../../kernel/mount/mount.ts';
import { attachDevice } from '../../pool/attached-device.ts';
import type { AttachedDevice, Pool, VolumeSpec } from '../../pool/pool.ts';
import { InternalError } from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import { step } from '../../volume/step.ts';
import { withTarget } from '../mount/bind-target.ts';
import { explainMountFailure } from '../mount/mount-volume.ts';
import type { AttributeState, FilesystemParameter } from '../mount-options.ts';
import type { PathHandle, Place } from '../path/path-handle.ts';

/** The place and the mount of a new volume, and its content. */
export interface Making {
  readonly place: Place;
  /** The empty directory that is there; undefined: it is still to be made. */
  readonly handle: PathHandle | undefined;
  readonly attributes: AttributeState;
  readonly parameters: readonly FilesystemParameter[];
  readonly source: GitSource | undefined;
}

/** A pod's user is not known here: like an emptyDir, the volume is open to all that can reach it. */
const rootMode = 0o777;

/** Makes a volume and shows it when it is complete. If that fails neither is left. */
export async function makeAt(queue: DiskQueue, pool: Pool, spec: VolumeSpec, making: Making): Promise<void> {
  await pool.create(spec);
  try {
    const attachment = await attachDevice(pool, spec.id, { persistent: false, secrets: spec.secrets });
    try {
      await fill(spec, attachment.devicePath, making);
      await using mount = await step('ephemeral/prepare', () => prepare(pool, spec, attachment, making));
      await withTarget(queue, { ...making, isDirectory: true }, (target) =>
        step('publish/mount', () => placeMount(pool.queue, mount, { target, attributes: making.attributes })),
      );
    } finally {
      await attachment.release();
    }
  } catch (error) {
    // If this fails, the next publish or unpublish removes it, or the next opening of the pool.
    await pool.remove(spec.id).catch(() => undefined);
    throw error;
  }
}

async function fill(spec: VolumeSpec, devicePath: string, { source }: Making): Promise<void> {
  if (source === undefined) return;
  const volume = { devicePath, fsType: filesystemOf(spec) };
  await step('ephemeral/populate', () => inTurn(source, () => populateFromGit({ volume, source })));
}

/** Mounts the volume where it is not visible, and gives it the look of an empty directory. */
async function prepare(
  { queue }: Pool,
  spec: VolumeSpec,
  device: AttachedDevice,
  { parameters }: Making,
): Promise<Descriptor> {
  const fsType = filesystemOf(spec);
  const request = { fsType, source: device.devicePath, parameters, attributes: {} };
  const mount = await mountDetached(queue, request).catch(async (error) => {
    throw await explainMountFailure(error, queue, { fsType, parameters, volumeId: spec.id }, device);
  });
  try {
    await queue.run(() => mount.during((path) => chmod(path, rootMode)));
    // For e2fsck(8), which no volume lives long enough to meet. A repository may have one with something in it, or a file
    // or link of that name.
    await removeDirectoryAt(queue, mount, 'lost+found').catch((error) => {
      if (!isErrno(error, 'ENOENT', 'ENOTDIR', 'ENOTEMPTY')) throw error;
    });
    return mount;
  } catch (error) {
    await mount[Symbol.asyncDispose]();
    throw error;
  }
}

function filesystemOf({ content, id }: VolumeSpec): FilesystemType {
  if (content.type === 'mount') return content.fsType;
  throw new InternalError(`volume ${id} is ephemeral and has no filesystem.`);
}

/** Git takes memory and the node's network; more at once would only make each of them later. */
const atOnce = { onThisNode: 4, fromOneHost: 2 };

/** One for each host, for as long as it is asked: of those that never answer, none holds up another. */
const queues = new Map<string, DiskQueue>();

/** Does the work when it is its turn among all that want something of the same host, or of this node's own disks. */
async function inTurn<T>({ repository }: GitSource, work: () => Promise<T>): Promise<T> {
  const host = repository.startsWith('/') ? '' : new URL(repository).host;
  const queue = queues.get(host) ?? new DiskQueue(`git ${host}`, host === '' ? atOnce.onThisNode : atOnce.fromOneHost);
  queues.set(host, queue);
  try {
    return await queue.run(work);
  } finally {
    if (queue.isIdle && queues.get(host) === queue) queues.delete(host);
  }
}
