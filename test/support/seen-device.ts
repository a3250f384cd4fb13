import type { DeviceNumber } from '../../src/kernel/device.ts';
import type { Pool } from '../../src/pool/pool.ts';
import type { VolumeId } from '../../src/volume/id.ts';

/** Which of the pool's volumes a device belongs to. */
export async function seenAs(pool: Pool, device: DeviceNumber): Promise<VolumeId | undefined> {
  return (await pool.volumeSeen({ device, mount: undefined }))?.id;
}
