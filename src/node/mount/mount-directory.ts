import { diskFaultOf } from '../../kernel/block/disk-fault.ts';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import { KernelError } from '../../kernel/call/errno.ts';
import { bindMount, mountFilesystem } from '../../kernel/mount/mount.ts';
import type { Attached, Attachment, Pool } from '../../pool/pool.ts';
import { InternalError, InvalidArgument, Unavailable } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import { step } from '../../volume/step.ts';
import { type FilesystemParameter, parseOption, refusedOption, type WantedAttributes } from './mount-options.ts';

/** A volume of files, on a filesystem that is not its own, that is to be mounted. */
export interface DirectoryMount {
  readonly volumeId: VolumeId;
  readonly attributes: WantedAttributes;
  readonly parameters: readonly FilesystemParameter[];
  readonly target: Descriptor;
  /** What must be done before anything is mounted. */
  readonly beforehand: () => Promise<void>;
}

/** Bind-mounts the volume's directory, or mounts what its pool says. Nothing is written to it. */
export async function mountDirectory(pool: Pool, mount: DirectoryMount): Promise<void> {
  const attachment = await pool.attach(mount.volumeId, { persistent: false });
  try {
    switch (attachment.kind) {
      case 'directory':
        return await bindDirectory(pool, mount, attachment);
      case 'mountable':
        return await mountSource(pool, mount, attachment);
      case 'device':
        throw new InternalError(`volume ${mount.volumeId} is a directory, and pool ${pool.name} has a device for it.`);
    }
  } finally {
    await attachment.release();
  }
}

async function bindDirectory(
  { queue }: Pool,
  { attributes, beforehand, parameters, target, volumeId }: DirectoryMount,
  { descriptor: from }: Extract<Attachment, { kind: 'directory' }>,
): Promise<void> {
  if (parameters.length > 0) {
    throw new InvalidArgument(
      `volume ${volumeId} is a directory: mount_flags may have only what a bind mount takes (ro, nosuid, nodev, noexec, noatime and the like). Correct mountOptions.`,
    );
  }
  await beforehand();
  // Apart, as a mount that a pod makes in the volume must not appear in the pool.
  await step('stage/mount', () => bindMount(queue, { from, target, attributes, isApart: true }));
}

async function mountSource(
  { queue }: Pool,
  mount: DirectoryMount,
  { fsType, options, source }: Extract<Attached, { kind: 'mountable' }>,
): Promise<void> {
  const { attributes, beforehand, target } = mount;
  const parameters = [...options.map(parseOption), ...mount.parameters];
  await beforehand();
  await step('stage/mount', () => mountFilesystem(queue, { fsType, source, parameters, attributes, target })).catch(
    (error) => {
      throw explain(error, fsType, mount);
    },
  );
}

/** What a filesystem says of its options may quote one, so of its words none are passed on (X02). */
function explain(error: unknown, fsType: string, { parameters, volumeId }: DirectoryMount): unknown {
  if (!(error instanceof KernelError) || !error.syscall.startsWith('fsconfig')) return error;
  const isOption = !error.syscall.includes('CMD_CREATE') || error.code === 'EINVAL';
  if (isOption && parameters.length > 0) {
    return refusedOption(error, { volumeId, fsType, parameters });
  }
  const message = `volume ${volumeId}: its ${fsType} cannot be mounted (${error.code}); see the node's kernel log.`;
  return diskFaultOf(error) === undefined ? new InternalError(message) : new Unavailable(message);
}
