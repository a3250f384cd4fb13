import { setTimeout as delay } from 'node:timers/promises';
import { findMapped, type MappedOver } from '../../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { type DeviceNumber, sameDevice } from '../../../../kernel/device.ts';
import { liveFilesystem } from '../../../../kernel/mount/mounted-device.ts';
import { Unavailable } from '../../../../volume/errors.ts';
import type { VolumeHandle } from '../../../../volume/handle.ts';
import { mapperName } from '../../../../volume/mapper-name.ts';
import { settlePausesMs } from '../../../mapped-device.ts';
import { closeMapper, isDraftOf } from '../mapper.ts';

/** In the names of mappers in which a filesystem is made. That of a pool is another. */
export const draftTag = 'disk';

/** The mapper that is mounted and shown. */
export async function mappersOf(queue: DiskQueue, handle: VolumeHandle): Promise<MappedOver[]> {
  return await findMapped(queue, (name) => name === mapperName(handle));
}

/** Left by a driver that was killed while it made a filesystem in them, or open for a moment, as udev looks at them. */
export async function draftsOver(queue: DiskQueue, ...lower: readonly DeviceNumber[]): Promise<MappedOver[]> {
  const drafts = await findMapped(queue, (name) => isDraftOf(name, draftTag));
  return drafts.filter(({ backing }) => backing.some((each) => lower.some((device) => sameDevice(each, device))));
}

/** All of a volume, drafts too, also over a device that is gone since. */
export async function allMappersOf(
  queue: DiskQueue,
  handle: VolumeHandle,
  lower: readonly DeviceNumber[],
): Promise<MappedOver[]> {
  const own = mapperName(handle);
  const ofIt = await findMapped(
    queue,
    (name) => name === own || (name.startsWith(`${own}-`) && isDraftOf(name, draftTag)),
  );
  const over = await draftsOver(queue, ...lower);
  return [...ofIt, ...over.filter(({ device }) => !ofIt.some((each) => sameDevice(each.device, device)))];
}

/** @throws Unavailable while one of them is in use: it has the key, and another node would open the volume then */
export async function closeMappers(
  queue: DiskQueue,
  handle: VolumeHandle,
  find: () => Promise<readonly MappedOver[]>,
): Promise<void> {
  for (const pauseMs of [...settlePausesMs, undefined]) {
    const mappers = await find();
    const [mapper] = mappers;
    if (mapper === undefined) return;
    for (const { devicePath } of mappers) {
      const live = liveFilesystem(devicePath);
      if (live !== undefined) throw stillUsed(handle, `its ${live} is still in use on ${devicePath}`);
    }
    for (const each of mappers) await closeMapper(queue, each);
    if (pauseMs === undefined) throw stillUsed(handle, `a program still has ${mapper.devicePath} open (see lsof)`);
    await delay(pauseMs);
  }
}

function stillUsed(handle: VolumeHandle, reason: string): Unavailable {
  return new Unavailable(
    `volume ${handle}: ${reason}: a program or a container has it, or it is being written back (see holdfast who). It is tried again.`,
  );
}
