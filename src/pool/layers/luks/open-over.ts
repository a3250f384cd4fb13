import { setTimeout as delay } from 'node:timers/promises';
import type { MappedOver } from '../../../kernel/block/device-mapper.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import type { VolumeHandle } from '../../../volume/handle.ts';
import { mapperName } from '../../../volume/mapper-name.ts';
import { openAgain, openStill, settlePausesMs } from '../../mapped-device.ts';
import type { AttachedDevice } from '../../pool.ts';
import { findOver, stateOf } from './mapper.ts';

interface Opening {
  /** The caller wants it until it is removed: one that goes with its last user is waited for. */
  readonly isToStay: boolean;
  /** Makes the mapper. */
  readonly open: () => Promise<MappedOver>;
}

/** Opens the mapper of a volume over its device, and makes it if it is not there. As long as it is open it stays. */
export async function openOver(
  queue: DiskQueue,
  id: VolumeHandle,
  lower: AttachedDevice,
  opening: Opening,
): Promise<{ readonly mapper: MappedOver; readonly descriptor: Descriptor }> {
  const opened = await openAgain(async () => {
    const mapper = (await present(queue, id, lower, opening)) ?? (await opening.open());
    // It went with its last user just now, and its number may be that of another volume.
    const descriptor = await openStill(queue, mapper, async () => (await stateOf(queue, mapper))?.device);
    return descriptor && { mapper, descriptor };
  });
  if (opened === undefined) throw stillGoing(id);
  return opened;
}

/** The one that is there already, which must never be a second time. */
async function present(
  queue: DiskQueue,
  id: VolumeHandle,
  lower: AttachedDevice,
  { isToStay }: Opening,
): Promise<MappedOver | undefined> {
  for (const pauseMs of [...settlePausesMs, undefined]) {
    const found = await findOver(queue, id, lower);
    const state = found && (await stateOf(queue, found));
    if (found === undefined || state === undefined) return undefined;
    if (!(isToStay && state.isGoing)) return found;
    if (pauseMs !== undefined) await delay(pauseMs);
  }
  throw stillGoing(id);
}

/** It goes with its last user, and is not to be used any more. */
function stillGoing(id: VolumeHandle): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id}: a process still has its last mapper ${mapperName(id)} open, which is being removed. End it (see lsof) and try again.`,
  );
}

export function shown({ device, devicePath, readonly }: MappedOver): { readonly kind: 'device' } & AttachedDevice {
  return { kind: 'device', device, devicePath, readonly };
}
