import { FailedPrecondition, NotFound, Unavailable } from '../../volume/errors.ts';
import { step } from '../../volume/step.ts';
import { type Cloud, type CloudAttachment, type CloudDisk, type CloudPace, Polling, shortId } from './cloud.ts';

export interface AttachPlace {
  readonly cloud: Cloud;
  readonly pace: CloudPace;
  readonly ended: EndedAttachments;
}

/** A disk for a machine. */
export interface ToAttach {
  /** The volume, for messages. */
  readonly handle: string;
  readonly diskId: string;
  /** The disk as the cloud shows it now. */
  look(): Promise<CloudDisk | undefined>;
}

/**
 * Attachments that this process has ended: the cloud may show them for a while, and one of them is no reason to believe that the disk
 * is attached.
 */
export class EndedAttachments {
  readonly #untilMs = new Map<string, number>();

  note(diskId: string, attachment: CloudAttachment, { settleMs }: Pick<CloudPace, 'settleMs'>): void {
    const nowMs = performance.now();
    for (const [key, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(key);
    const key = keyOf(diskId, attachment);
    if (key !== undefined) this.#untilMs.set(key, nowMs + settleMs);
  }

  /** The cloud has said that the disk is attached there. */
  forget(diskId: string, attachment: CloudAttachment): void {
    const key = keyOf(diskId, attachment);
    if (key !== undefined) this.#untilMs.delete(key);
  }

  has(diskId: string, attachment: CloudAttachment): boolean {
    const key = keyOf(diskId, attachment);
    return key !== undefined && (this.#untilMs.get(key) ?? 0) > performance.now();
  }
}

/** undefined: nothing tells it from a later one. */
function keyOf(diskId: string, { instance, sinceMs }: CloudAttachment): string | undefined {
  return sinceMs === undefined ? undefined : `${diskId} ${instance} ${sinceMs}`;
}

/**
 * Attaches a disk to a machine, and waits until it is. Called again it goes on from what the cloud shows: it may have been
 * attached by a try whose answer was lost.
 * @throws FailedPrecondition if another machine has it, Unavailable if it takes longer
 */
export async function attachDisk(place: AttachPlace, wanted: ToAttach, instance: string): Promise<void> {
  const { cloud, ended, pace } = place;
  const { diskId, handle } = wanted;
  const endMs = performance.now() + pace.waitMs;
  let isAsked = false;
  const polling = new Polling(pace);
  for (;;) {
    const disk = await requireDisk(place, wanted);
    const attachments = disk.attachments.filter((each) => !ended.has(diskId, each));
    const other = attachments.find((each) => each.instance !== instance);
    if (other !== undefined) throw await inUseBy(place, handle, disk, other);
    const attachment = attachments.find((each) => each.instance === instance);
    if (attachment?.state === 'attached') {
      const isEnding = (await cloud.isEnding?.(diskId, instance)) === true;
      if (isEnding) ended.note(diskId, attachment, pace);
      // Another disk may have the name of its device there, and would be taken for it.
      else if ((await cloud.isFindable?.(diskId, instance)) !== false) return;
    } else if (attachment?.state === 'attaching') await endIfStuck(place, handle, disk, attachment);
    // Once: what the cloud shows is late, and it refuses a second one with other words.
    else if (attachment === undefined && !isAsked) {
      const hidden = disk.attachments.find((each) => each.instance === instance);
      // Asked before the attachment: a disk that is refused after that has not ended there.
      const mayEnd = hidden === undefined || cloud.isEnding === undefined || (await cloud.isEnding(diskId, instance));
      isAsked = await step('cloud/attach', () => cloud.attach(disk, instance));
      if (!isAsked && !mayEnd) ended.forget(diskId, hidden);
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
  { cloud, ended, pace }: AttachPlace,
  handle: string,
  diskId: string,
  instance: string | undefined,
): Promise<void> {
  const shown = new Map<string, CloudAttachment>();
  const endMs = performance.now() + pace.waitMs;
  const machines = new Set(instance === undefined ? [] : [instance]);
  let isAsked = false;
  const polling = new Polling(pace);
  for (;;) {
    const disk = await cloud.disk(diskId);
    const left = disk?.attachments.filter((each) => instance === undefined || each.instance === instance) ?? [];
    for (const each of left) {
      machines.add(each.instance);
      shown.set(each.instance, each);
    }
    if (!isAsked) {
      for (const machine of machines) await step('cloud/detach', () => cloud.detach(diskId, machine));
      isAsked = machines.size > 0;
    }
    if (left.length === 0) {
      for (const each of shown.values()) ended.note(diskId, each, pace);
      return;
    }
    if (performance.now() >= endMs) {
      const [first] = left;
      throw new Unavailable(
        `volume ${handle}: ${shortId(diskId)} is still ${first?.state} at ${shortId(first?.instance ?? '')}. If that machine is broken, stop it in ${cloud.name}; it is tried again.`,
      );
    }
    await polling.pause();
  }
}

async function requireDisk({ cloud }: AttachPlace, { diskId, handle, look }: ToAttach): Promise<CloudDisk> {
  const disk = await look();
  if (disk !== undefined && disk.state !== 'going') return disk;
  throw new NotFound(`volume ${handle}: ${cloud.name} has no disk ${shortId(diskId)}.`);
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
    `volume ${handle}: ${shortId(id)} was attaching to ${shortId(instance)} for ${Math.round((Date.now() - sinceMs) / 1000)} s; that was ended, and it is attached again.`,
  );
}

async function inUseBy({ cloud }: AttachPlace, handle: string, { id }: CloudDisk, other: CloudAttachment) {
  const { instance, state } = other;
  const where = `${shortId(id)} is ${state} at ${shortId(instance)} in ${cloud.name}`;
  if (state === 'detaching' || (await cloud.isEnding?.(id, instance)) === true) {
    return new Unavailable(`volume ${handle}: ${where}, and may be detaching; try again.`);
  }
  return new FailedPrecondition(`volume ${handle}: ${where}: detach it there first (ControllerUnpublishVolume).`);
}

function slow(
  { cloud }: AttachPlace,
  handle: string,
  diskId: string,
  instance: string,
  attachment: CloudAttachment | undefined,
): Unavailable {
  const state = attachment?.state ?? 'not attached yet';
  return new Unavailable(
    `volume ${handle}: ${shortId(diskId)} is ${state} at ${shortId(instance)} in ${cloud.name}; try again.`,
  );
}
