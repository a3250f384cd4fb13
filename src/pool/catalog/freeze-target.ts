import { readMountTable } from '../../kernel/mount/mount-table.ts';
import { mountsOfDevices } from '../../kernel/mount/mounts-of-device.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { FreezeTarget } from '../freeze/freezer.ts';
import { attachedHere } from './in-use.ts';
import type { CatalogParts } from './parts.ts';

/**
 * The filesystems and devices to be frozen of a volume that is about to be cloned. A filesystem that is mounted nowhere
 * here but still has its device is either about to go, and is waited for: the last writes of its users may not be in the
 * image yet. Or it lives on in another mount namespace, where it cannot be frozen.
 * @throws FailedPrecondition then
 */
export async function freezeTarget(
  { backend: { attacher, queue }, freezer }: Pick<CatalogParts, 'backend' | 'freezer'>,
  { content, id }: Pick<VolumeRecord, 'content' | 'id'>,
): Promise<FreezeTarget> {
  // One that was left frozen would stay for ever.
  await freezer.endUnseen({ id, content, attached: await attacher.attached(id) });
  const devices = (await attacher.inUse(id)).filter((each) => each.kind === 'device');
  const target = { volumeId: id, devices, hasFilesystem: content.type === 'mount' };
  const writable = devices.find(({ readonly }) => !readonly);
  if (!target.hasFilesystem || writable === undefined) return target;
  const table = await readMountTable(queue);
  const shows = await mountsOfDevices(queue, table, { devices: [writable.device] });
  if (!table.some((mount) => shows(mount, writable.device) === true)) throw await attachedHere(id, writable);
  return target;
}

/** True if nothing writes to its image while it is cloned: a filesystem is frozen, a raw device cannot be. */
export function isAtRest({ devices, hasFilesystem }: FreezeTarget): boolean {
  return hasFilesystem || devices.every(({ readonly }) => readonly);
}
