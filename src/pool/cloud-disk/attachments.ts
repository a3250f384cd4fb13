import { FailedPrecondition, NotFound, Unavailable } from '../../volume/errors.ts';
import { step } from '../../volume/step.ts';
import { type Cloud, type CloudAttachment, type CloudDisk, type CloudPace, Polling } from './cloud.ts';

export interface AttachPlace {
  readonly cloud: Cloud;
  readonly pace: CloudPace;
}

/**
 * Attaches a disk to a machine, and waits until it is. Called again it goes on from what the cloud shows: it may have been
 * attached by a try whose answer was lost.
 * @throws FailedPrecondition if another machine has it, Unavailable if it takes longer
 */
export async function attachDisk(place: AttachPlace, handle: string, diskId: string, instance: string): Promise<void> {
  const { cloud, pace } = place;
  const endMs = performance.now() + pace.waitMs;
  let isAsked = false;
  const polling = new Polling(pace);
  for (;;) {
    const disk = await requireDisk(place, handle, diskId);
    const other = disk.attachments.find((each) => each.instance !== instance);
    if (other !== undefined) throw inUseBy(place, handle, disk, other);
    const attachment = disk.attachments.find((each) => each.instance === instance);
    if (attachment?.state === 'attached') return;
    if (attachment?.state === 'attaching') await endIfStuck(place, handle, disk, attachment);
    // Once: what the cloud shows is late, and it refuses a second one with other words.
    else if (attachment === undefined && !isAsked) {
      isAsked = true;
      await step('cloud/attach', () => cloud.attach(disk, instance));
    }
    if (performance.now() >= endMs) throw slow(place, handle, diskId, instance, attachment);
    await polling.pause();
  }
}

/**
 * Detaches a disk, and waits until the cloud no longer shows it there. The cloud is asked in any case: what it shows is late,
 * and an attachment that was just begun would stay for ever.
 */
export async function detachDisk(
  { cloud, pace }: AttachPlace,
  handle: string,
  diskId: string,
  instance: string | undefined,
): Promise<void> {
  const endMs = performance.now() + pace.waitMs;
  const machines = new Set(instance === undefined ? [] : [instance]);
  let isAsked = false;
  const polling = new Polling(pace);
  for (;;) {
    const disk = await cloud.disk(diskId);
    const left = disk?.attachments.filter((each) => instance === undefined || each.instance === instance) ?? [];
    for (const each of left) machines.add(each.instance);
    if (!isAsked) {
      for (const machine of machines) await step('cloud/detach', () => cloud.detach(diskId, machine));
      isAsked = machines.size > 0;
    }
    if (left.length === 0) return;
    if (performance.now() >= endMs) {
      const [first] = left;
      throw new Unavailable(
        `volume ${handle}: ${diskId} is still ${first?.state} at ${first?.instance}. If that machine is broken, stop it in ${cloud.name}; it is tried again.`,
      );
    }
    await polling.pause();
  }
}

async function requireDisk({ cloud }: AttachPlace, handle: string, diskId: string): Promise<CloudDisk> {
  const disk = await cloud.disk(diskId);
  if (disk !== undefined && disk.state !== 'going') return disk;
  throw new NotFound(`volume ${handle}: ${cloud.name} has no disk ${diskId}.`);
}

/** The device's name may be one that the machine still has in use: with another one it works. */
async function endIfStuck(
  { cloud, pace }: AttachPlace,
  handle: string,
  { id }: CloudDisk,
  { instance, sinceMs }: CloudAttachment,
): Promise<void> {
  if (sinceMs === undefined || Date.now() - sinceMs < pace.stuckMs) return;
  await step('cloud/detach', () => cloud.detach(id, instance));
  throw new Unavailable(
    `volume ${handle}: ${id} was attaching to ${instance} for ${Math.round((Date.now() - sinceMs) / 1000)} s; that was ended, and it is attached again.`,
  );
}

function inUseBy({ cloud }: AttachPlace, handle: string, { id }: CloudDisk, { instance, state }: CloudAttachment) {
  if (state === 'detaching') {
    return new Unavailable(`volume ${handle}: ${id} is still detaching from ${instance} in ${cloud.name}; try again.`);
  }
  return new FailedPrecondition(
    `volume ${handle}: ${id} is ${state} at ${instance} in ${cloud.name}: detach it there first (ControllerUnpublishVolume).`,
  );
}

function slow(
  { cloud }: AttachPlace,
  handle: string,
  diskId: string,
  instance: string,
  attachment: CloudAttachment | undefined,
): Unavailable {
  const state = attachment?.state ?? 'not attached yet';
  return new Unavailable(`volume ${handle}: ${diskId} is ${state} at ${instance} in ${cloud.name}; try again.`);
}
