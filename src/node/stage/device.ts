import { basename, dirname } from 'node:path';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { makeFileAt, openBeneath, openDirectory, removeFileAt } from '../../kernel/file/path.ts';
import { bindMount, unmountAt } from '../../kernel/mount/mount.ts';
import { attachDeviceOf } from '../../pool/attached-device.ts';
import { detachUnseen } from '../../pool/detach-unseen.ts';
import type { VolumeAccess } from '../../pool/node-side.ts';
import { Aborted } from '../../volume/errors.ts';
import type { Secrets } from '../../volume/secrets.ts';
import { shortPath } from '../../volume/short-path.ts';
import { step } from '../../volume/step.ts';
import { openHandle, type PathHandle, type Place } from '../path/path-handle.ts';

/** Opens the node of a device, to be shown elsewhere. */
async function openDeviceNode(queue: DiskQueue, devicePath: string): Promise<Descriptor> {
  await using directory = await openDirectory(queue, dirname(devicePath));
  return await openBeneath(queue, directory, basename(devicePath));
}

/** The staging of a block volume. */
export interface DeviceStaging {
  readonly secrets: Secrets;
  readonly place: Place;
  /** The object there: an empty file of an earlier try, or a device. */
  readonly handle: PathHandle | undefined;
  /** The device that is shown there has been detached behind our back. */
  readonly isStale: boolean;
  readonly isReadonly: boolean;
}

/** Attaches the volume and shows its device at the place. */
export async function stageDevice(queue: DiskQueue, volume: VolumeAccess, staging: DeviceStaging): Promise<void> {
  const { isReadonly, isStale, handle, place, secrets } = staging;
  handle?.[Symbol.dispose]();
  if (isStale) await step('unstage/unmount', () => unmountAt(queue, place.parent, place.name));
  const attachment = await attachDeviceOf(volume, { persistent: true, secrets, isReadonly });
  try {
    await step('stage/device', async () => {
      if (handle === undefined) await makeFileAt(queue, place.parent, place.name, 0o600);
      await using node = await openDeviceNode(volume.queue, attachment.devicePath);
      using file = await openHandle(queue, place);
      if (file?.kind !== 'file')
        throw new Aborted(`${shortPath(place.path)} was changed while it was made; try again.`);
      await bindMount(queue, { from: node, target: file.descriptor, attributes: {} });
    });
  } catch (error) {
    if (handle === undefined) await removeFileAt(queue, place.parent, place.name).catch(() => undefined);
    await attachment.release();
    await detachUnseen(queue, volume);
    throw error;
  }
  await attachment.release();
}
