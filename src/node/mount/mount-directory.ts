import { diskFaultOf } from '../../kernel/block/disk-fault.ts';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import { KernelError } from '../../kernel/call/errno.ts';
import { bindMount, mountFilesystem } from '../../kernel/mount/mount.ts';
import type { VolumeAccess } from '../../pool/node-side.ts';
import type { Attachment } from '../../pool/pool.ts';
import { InternalError, InvalidArgument, Unavailable } from '../../volume/errors.ts';
import type { Secrets } from '../../volume/secrets.ts';
import { step } from '../../volume/step.ts';
import { type FilesystemParameter, parseOption, refusedOption, type WantedAttributes } from '../mount-options.ts';

/** The mount of a volume of files, on a filesystem that is not its own. */
export interface DirectoryMount {
  readonly attributes: WantedAttributes;
  readonly parameters: readonly FilesystemParameter[];
  readonly target: Descriptor;
  readonly secrets: Secrets;
  /** The work that must be done before anything is mounted. */
  readonly beforehand: () => Promise<void>;
}

/** Bind-mounts the volume's directory, or mounts what its pool says. Nothing is written to it. */
export async function mountDirectory(volume: VolumeAccess, mount: DirectoryMount): Promise<void> {
  const attachment = await volume.attach({ persistent: false, secrets: mount.secrets });
  try {
    switch (attachment.kind) {
      case 'directory':
        return await bindDirectory(volume, mount, attachment);
      case 'mountable':
        return await mountSource(volume, mount, attachment);
      case 'device':
        throw new InternalError(
          `volume ${volume.handle} is a directory, and pool ${volume.poolName} has a device for it.`,
        );
    }
  } finally {
    await attachment.release();
  }
}

async function bindDirectory(
  { handle: volumeId, queue }: VolumeAccess,
  { attributes, beforehand, parameters, target }: DirectoryMount,
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
  { handle: volumeId, queue }: VolumeAccess,
  mount: DirectoryMount,
  { fsType, mountAt, options, source }: Extract<Attachment, { kind: 'mountable' }>,
): Promise<void> {
  const { attributes, beforehand, target } = mount;
  await beforehand();
  if (mountAt !== undefined) return await step('stage/mount', () => mountAt(target, mount));
  const parameters = [...options.map(parseOption), ...mount.parameters];
  await step('stage/mount', () => mountFilesystem(queue, { fsType, source, parameters, attributes, target })).catch(
    (error) => {
      throw explain(error, { fsType, parameters: mount.parameters, volumeId });
    },
  );
}

type Refusal = Parameters<typeof refusedOption>[1];

/** A filesystem's message about its options may quote one, so it is never passed on (X02). */
function explain(error: unknown, { fsType, parameters, volumeId }: Refusal): unknown {
  if (!(error instanceof KernelError) || !error.syscall.startsWith('fsconfig')) return error;
  const isOption = !error.syscall.includes('CMD_CREATE') || error.code === 'EINVAL';
  if (isOption && parameters.length > 0) {
    return refusedOption(error, { volumeId, fsType, parameters });
  }
  const message = `volume ${volumeId}: its ${fsType} cannot be mounted (${error.code}); see the node's kernel log.`;
  return diskFaultOf(error) === undefined ? new InternalError(message) : new Unavailable(message);
}
