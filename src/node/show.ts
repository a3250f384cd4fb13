import type { Descriptor } from '../kernel/descriptor.ts';
import type { Lane } from '../kernel/lane.ts';
import { bindMount } from '../kernel/mount.ts';
import { makeDirectoryAt, makeFileAt, removeDirectoryAt, removeFileAt } from '../kernel/path.ts';
import type { Pool } from '../pool/pool.ts';
import { Aborted, FailedPrecondition } from '../volume/errors.ts';
import type { VolumeId } from '../volume/id.ts';
import { shortPath } from '../volume/short-path.ts';
import { step } from '../volume/step.ts';
import { detachUnseen, openDeviceNode } from './block.ts';
import { type Look, lookAt, type Place } from './look.ts';
import type { WantedMount } from './plan.ts';

/** A staged volume that is to be seen at one more place. */
export interface Showing {
  readonly volumeId: VolumeId;
  readonly place: Place;
  /** The empty directory or file that is there; undefined: it is still to be made. */
  readonly look: Look | undefined;
  /** The staged filesystem, or the staged device's node. */
  readonly staged: Descriptor;
  readonly wanted: WantedMount;
}

/** Bind-mounts the staged volume onto its target. */
export async function show(lane: Lane, pool: Pool, showing: Showing): Promise<void> {
  const isDirectory = showing.wanted.access === 'mount';
  try {
    await withTarget(lane, { ...showing, isDirectory }, (target) => bind(pool, showing, target));
  } catch (error) {
    if (!isDirectory) await detachUnseen(lane, pool, showing.volumeId, 'readonly').catch(() => undefined);
    throw error;
  }
}

/** Makes the target if it is not there, and mounts on it. If that fails, none is left that was not there (PB17). */
export async function withTarget(
  lane: Lane,
  { isDirectory, look, place }: Pick<Showing, 'look' | 'place'> & { readonly isDirectory: boolean },
  mountOn: (target: Descriptor) => Promise<void>,
): Promise<void> {
  if (look === undefined) await step('publish/target', () => makeTarget(lane, place, isDirectory));
  try {
    using fresh = look === undefined ? await lookAt(lane, place) : undefined;
    const target = look ?? fresh;
    if (target === undefined || (target.kind === 'directory') !== isDirectory) {
      throw new Aborted(`Somebody changed ${shortPath(place.path)} while it was made; try again.`);
    }
    await mountOn(target.descriptor);
  } catch (error) {
    if (look === undefined) await removeTarget(lane, place, isDirectory).catch(() => undefined);
    throw error;
  }
}

/** The caller makes the parent (PB16). */
export function missingParent(path: string): FailedPrecondition {
  return new FailedPrecondition(
    `The directory that ${shortPath(path)} is to be in does not exist: the caller makes it.`,
  );
}

async function makeTarget(lane: Lane, { name, parent }: Place, isDirectory: boolean): Promise<void> {
  // Hidden by the mount; until then, and after it, nobody else needs it.
  if (isDirectory) await makeDirectoryAt(lane, parent, name, 0o750);
  else await makeFileAt(lane, parent, name, 0o600);
}

/** Never more than the one empty directory or file (UP06). */
export async function removeTarget(lane: Lane, { name, parent }: Place, isDirectory: boolean): Promise<void> {
  if (isDirectory) await removeDirectoryAt(lane, parent, name);
  else await removeFileAt(lane, parent, name);
}

async function bind(pool: Pool, { staged, volumeId, wanted }: Showing, target: Descriptor): Promise<void> {
  const { lane } = pool;
  const isDevice = wanted.access === 'block';
  if (isDevice && wanted.attributes.readonly) return bindReadonlyDevice(pool, volumeId, target);
  // Attributes of a mount mean nothing to a device.
  const attributes = isDevice ? {} : wanted.attributes;
  await step('publish/mount', () => bindMount(lane, { from: staged, target, attributes }));
}

/** A read-only mount of a device node stops no writes to the device: there is a second device that takes none (PB14). */
async function bindReadonlyDevice(pool: Pool, volumeId: VolumeId, target: Descriptor): Promise<void> {
  const attachment = await pool.attach(volumeId, { lasting: true, readonly: true });
  try {
    await using node = await openDeviceNode(pool.lane, attachment.devicePath);
    await step('publish/mount', () => bindMount(pool.lane, { from: node, target, attributes: {} }));
  } finally {
    await attachment.release();
  }
}
