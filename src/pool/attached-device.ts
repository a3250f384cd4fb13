import { InternalError } from '../volume/errors.ts';
import type { VolumeId } from '../volume/id.ts';
import type { Attached, Attachment, AttachOptions, Pool } from './pool.ts';

export type DeviceAttachment = Extract<Attachment, { kind: 'device' }>;

/** Attaches a volume that holds a filesystem, or that is a raw block volume: both have a device. */
export async function attachDevice(pool: Pool, id: VolumeId, options: AttachOptions): Promise<DeviceAttachment> {
  const attachment = await pool.attach(id, options);
  if (attachment.kind === 'device') return attachment;
  await attachment.release();
  throw new InternalError(`volume ${id}: its pool ${pool.name} has a ${attachment.kind} for it, and no device.`);
}

/** The devices through which a volume is reachable on this node now. */
export async function attachedDevices(pool: Pool, id: VolumeId): Promise<Extract<Attached, { kind: 'device' }>[]> {
  return (await pool.attached(id)).filter((each) => each.kind === 'device');
}
