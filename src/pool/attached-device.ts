import { InternalError } from '../volume/errors.ts';
import type { VolumeHandle } from '../volume/handle.ts';
import type { VolumeId } from '../volume/id.ts';
import type { VolumeAccess } from './node-side.ts';
import type { Attached, Attachment, AttachOptions, Pool } from './pool.ts';

export type DeviceAttachment = Extract<Attachment, { kind: 'device' }>;

/** Attaches a volume that holds a filesystem, or that is a raw block volume: both have a device. */
export async function attachDevice(pool: Pool, id: VolumeId, options: AttachOptions): Promise<DeviceAttachment> {
  return await requireDevice(await pool.attach(id, options), id, pool.name);
}

/** The same on a node that may know no pool of the volume. */
export async function attachDeviceOf(volume: VolumeAccess, options: AttachOptions): Promise<DeviceAttachment> {
  return await requireDevice(await volume.attach(options), volume.handle, volume.poolName);
}

async function requireDevice(attachment: Attachment, id: VolumeHandle, poolName: string): Promise<DeviceAttachment> {
  if (attachment.kind === 'device') return attachment;
  await attachment.release();
  throw new InternalError(`volume ${id}: its pool ${poolName} has a ${attachment.kind} for it, and no device.`);
}

/** The devices through which a volume is reachable on this node now. */
export async function attachedDevices<Id>(
  where: { attached(id: Id): Promise<Attached[]> },
  id: Id,
): Promise<Extract<Attached, { kind: 'device' }>[]> {
  return (await where.attached(id)).filter((each) => each.kind === 'device');
}
