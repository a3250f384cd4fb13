import { constants } from 'node:fs';
import { mappedPath } from '../../../kernel/block/device-mapper.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../../kernel/device.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { openStill } from '../../mapped-device.ts';
import type { VolumeGroup } from './group/volume-group.ts';

/** The device of a logical volume, open. */
export interface LvDevice {
  readonly descriptor: Descriptor;
  readonly device: DeviceNumber;
  /** The kernel's name: links in /dev/mapper or /dev/VG come late, or not at all, and may be those of another one. */
  readonly devicePath: string;
}

/**
 * Opens the device of a logical volume, activating it if need be. A number is given to another device as soon as its own
 * is gone, so the opened device is compared with the kernel's answer about the volume after that.
 * @throws FailedPrecondition if LVM is configured not to activate it
 */
export async function openLv(
  queue: DiskQueue,
  group: VolumeGroup,
  lvName: string,
  flags: number = constants.O_RDONLY,
): Promise<LvDevice> {
  if (group.deviceOf(lvName) === undefined) await step('attach/device', () => group.activate(queue, lvName));
  const mapped = group.deviceOf(lvName);
  if (mapped === undefined) {
    throw new FailedPrecondition(
      `LVM does not activate logical volume ${group.name}/${lvName}, and says of no error: does volume_list in lvm.conf leave its group out (lvmconfig activation/volume_list)? Else see lvs -a.`,
    );
  }
  const devicePath = mappedPath(mapped.device);
  const numberNow = async () => group.deviceOf(lvName)?.device;
  const descriptor = await openStill(queue, { device: mapped.device, devicePath }, numberNow, flags);
  if (descriptor !== undefined) return { descriptor, device: mapped.device, devicePath };
  throw new FailedPrecondition(`${devicePath} is not the device of logical volume ${lvName} any more; try again.`);
}
