import type { DeviceNumber } from '../../kernel/device.ts';
import type { Lane } from '../../kernel/lane.ts';
import { listLoops, loopNumber, loopStatus } from '../../kernel/loop.ts';
import { parseVolumeId, type VolumeId } from '../../volume/id.ts';
import type { AttachedDevice } from '../pool.ts';

/*
 * Loop devices by what the kernel alone knows of them, for a pool whose disk cannot be asked: enough to undo what is
 * mounted, not enough to attach anything.
 */

/** The devices with this volume's label. */
export async function labelledDevices(lane: Lane, id: VolumeId): Promise<AttachedDevice[]> {
  const loops = await listLoops(lane, (backingPath) => backingPath.includes(id));
  return loops
    .filter(({ label }) => label === id)
    .map(({ device, devicePath, readonly }) => ({ device, devicePath, readonly }));
}

/** The volume that a device is labelled with. */
export async function labelOf(lane: Lane, device: DeviceNumber): Promise<VolumeId | undefined> {
  const number = loopNumber(device);
  const status = number === undefined ? undefined : await loopStatus(lane, number);
  return status === undefined ? undefined : parseVolumeId(status.label);
}
