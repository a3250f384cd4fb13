import { refusesWrites, setRefusesWrites } from '../../kernel/block/block.ts';
import { type Descriptor, openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { syncFile } from '../../kernel/file/file.ts';
import { makeDirectoryAt, makeFileAt, removeDirectoryAt, removeFileAt } from '../../kernel/file/path.ts';
import { bindMount } from '../../kernel/mount/mount.ts';
import type { VolumeAccess } from '../../pool/node-side.ts';
import { Aborted, FailedPrecondition } from '../../volume/errors.ts';
import { shortPath } from '../../volume/short-path.ts';
import { step } from '../../volume/step.ts';
import { openHandle, type PathHandle, type Place } from '../path/path-handle.ts';
import type { WantedMount } from '../plan.ts';
import { writeProtected } from './write-protected.ts';

/** The mount of a staged volume at one more place. */
export interface TargetBinding {
  readonly place: Place;
  /** The empty directory or file that is there; undefined: it is still to be made. */
  readonly handle: PathHandle | undefined;
  /** The staged filesystem, or the staged device's node. */
  readonly staged: Descriptor;
  readonly wanted: WantedMount;
}

/** Bind-mounts the staged volume onto its target. */
export async function bindTarget(queue: DiskQueue, volume: VolumeAccess, binding: TargetBinding): Promise<void> {
  const isDirectory = binding.wanted.access === 'mount';
  await withTarget(queue, { ...binding, isDirectory }, (target) => bind(volume, binding, target));
}

/** Makes the target if it is not there, and mounts on it. If that fails, none is left that was not there (PB17). */
export async function withTarget(
  queue: DiskQueue,
  { isDirectory, handle, place }: Pick<TargetBinding, 'handle' | 'place'> & { readonly isDirectory: boolean },
  mountOn: (target: Descriptor) => Promise<void>,
): Promise<void> {
  if (handle === undefined) await step('publish/target', () => makeTarget(queue, place, isDirectory));
  try {
    using fresh = handle === undefined ? await openHandle(queue, place) : undefined;
    const target = handle ?? fresh;
    if (target === undefined || (target.kind === 'directory') !== isDirectory) {
      throw new Aborted(`${shortPath(place.path)} was changed while it was made; try again.`);
    }
    await mountOn(target.descriptor);
  } catch (error) {
    if (handle === undefined) await removeTarget(queue, place, isDirectory).catch(() => undefined);
    throw error;
  }
}

/** The caller makes the parent (PB16). */
export function missingParent(path: string): FailedPrecondition {
  return new FailedPrecondition(`The parent directory of ${shortPath(path)} does not exist: the caller makes it.`);
}

async function makeTarget(queue: DiskQueue, { name, parent }: Place, isDirectory: boolean): Promise<void> {
  // Hidden by the mount; until then, and after it, no other program needs it.
  if (isDirectory) await makeDirectoryAt(queue, parent, name, 0o750);
  else await makeFileAt(queue, parent, name, 0o600);
}

/** Never more than the one empty directory or file (UP06). */
export async function removeTarget(queue: DiskQueue, { name, parent }: Place, isDirectory: boolean): Promise<void> {
  if (isDirectory) await removeDirectoryAt(queue, parent, name);
  else await removeFileAt(queue, parent, name);
}

async function bind(volume: VolumeAccess, { staged, wanted }: TargetBinding, target: Descriptor): Promise<void> {
  const { queue } = volume;
  const isDevice = wanted.access === 'block';
  if (isDevice) await setDevice(volume, staged, wanted.attributes.readonly);
  // Attributes of a mount mean nothing to a device.
  const attributes = isDevice ? {} : wanted.attributes;
  await step('publish/mount', () => bindMount(queue, { from: staged, target, attributes }));
}

/**
 * A read-only mount of a device node stops no writes to the device (PB14), and a second device over the same image would
 * have a separate cache, in which old bytes stay for as long as it is open anywhere. So it is the one device that takes
 * writes or refuses them. The caller has made sure that it is not in use in the other way.
 */
async function setDevice({ handle, queue }: VolumeAccess, node: Descriptor, isReadonly: boolean): Promise<void> {
  await using device = await openReadOnly(queue, node);
  if (refusesWrites(device) === isReadonly) return;
  await step('publish/device', async () => {
    // Old writes of a writer that has gone: afterwards the kernel would complain of each block that it writes back.
    if (isReadonly) await syncFile(queue, device);
    setRefusesWrites(device, isReadonly);
  });
  // The device itself, and not this mark alone.
  if (refusesWrites(device) !== isReadonly) throw writeProtected(handle);
}
