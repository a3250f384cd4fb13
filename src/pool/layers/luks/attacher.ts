import { setTimeout as delay } from 'node:timers/promises';
import { findMapped, type MappedOver, mappedDevice, mappedOver } from '../../../kernel/block/device-mapper.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { isNodeOf, readMountTable } from '../../../kernel/mount/mount-table.ts';
import { mayShowAny } from '../../../kernel/mount/mounts-of-device.ts';
import { InternalError } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import { mapperName, volumeOfMapper } from '../../../volume/mapper-name.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Attacher } from '../../backend.ts';
import { seenVolume } from '../../device-content.ts';
import { settlePausesMs } from '../../mapped-device.ts';
import type { Attached, AttachedDevice, Attachment, AttachOptions } from '../../pool.ts';
import { below } from './below.ts';
import type { LuksParts } from './luks-layer.ts';
import { closeMapper, isDraftOf, isUnused, openMapper, removeMapper, resizeMapper, stateOf } from './mapper.ts';
import { openOver, shown } from './open-over.ts';

type Device = Extract<Attached, { kind: 'device' }>;

/**
 * A second device over that of the backend below: only the one with the data is mounted and shown, never the one with
 * the ciphertext. It holds the one below open, which goes with it where devices go automatically.
 */
export function luksAttacher(parts: LuksParts): Attacher {
  const { inner, queue, ring, tag } = parts;
  const { attacher } = inner;

  async function attach(record: VolumeRecord, options: AttachOptions): Promise<Attachment> {
    if (record.encryption === undefined) return attacher.attach(record, options);
    // The mapper holds it, so it need not be persistent.
    const lower = await attacher.attach(below(record), { persistent: false });
    if (lower.kind !== 'device') throw new InternalError(`volume ${record.id} has no device to be encrypted on.`);
    const attachment = await attachOver(record, lower, options).catch(async (error) => {
      await lower.release();
      await letGo(lower).catch(() => undefined);
      throw error;
    });
    await lower.release();
    return attachment;
  }

  async function attachOver(record: VolumeRecord, lower: Device, options: AttachOptions): Promise<Attachment> {
    const { descriptor, mapper } = await openOver(queue, record.id, lower, {
      isToStay: options.persistent,
      open: () => open(record, lower, options),
    });
    try {
      // It is open here, so it goes when that and all mounts of it have ended.
      if (!options.persistent) await step('luks/defer', () => removeMapper(queue, mapper));
    } catch (error) {
      await descriptor[Symbol.asyncDispose]();
      throw error;
    }
    return { ...shown(mapper), descriptor, release: () => descriptor[Symbol.asyncDispose]() };
  }

  async function open(record: VolumeRecord, lower: Device, { secrets }: AttachOptions): Promise<MappedOver> {
    const { current } = await ring.keysOf(record, { secrets, use: 'stage' });
    return openMapper(parts, record, { devicePath: lower.devicePath, name: mapperName(record.id), key: current });
  }

  /** The mappers of ours over a device: nothing else shows a device below such a mapper. */
  async function uppersOf(lower: Attached): Promise<MappedOver[]> {
    if (lower.kind !== 'device') return [];
    return (await mappedOver(queue, lower.device)).filter(({ name }) => volumeOfMapper(name) !== undefined);
  }

  async function uppermost(lower: Attached): Promise<Attached[]> {
    const uppers = await uppersOf(lower);
    return uppers.length === 0 ? [lower] : uppers.map(shown);
  }

  async function topOf(lowers: readonly Attached[]): Promise<Attached[]> {
    return (await Promise.all(lowers.map(uppermost))).flat();
  }

  async function inUse(id: VolumeId): Promise<readonly Attached[]> {
    for (const pauseMs of settlePausesMs) {
      const uppers = await findMapped(queue, (name) => name === mapperName(id));
      if (uppers.length === 0) return attacher.inUse(id);
      if (!(await isLingering(uppers))) break;
      await delay(pauseMs);
    }
    return topOf(await attacher.attached(id));
  }

  /** Nothing shows it, and it is about to go. */
  async function isLingering(uppers: readonly MappedOver[]): Promise<boolean> {
    const states = await Promise.all(uppers.map((upper) => stateOf(queue, upper)));
    if (!states.every((state) => state === undefined || state.isGoing)) return false;
    const table = await readMountTable(queue);
    const devices = uppers.map((upper) => shown(upper).device);
    return !(await mayShowAny(queue, table, { devices }));
  }

  async function detach(attached: Attached): Promise<void> {
    const mapper = attached.kind === 'device' ? ownMapper(attached) : undefined;
    if (mapper === undefined) return attacher.detach(attached);
    const lowers = await lowersOf(mapper);
    if (lowers.length === 0 && mapper.backing.length > 0) return;
    await closeMapper(queue, mapper);
    for (const lower of lowers) await letGo(lower);
  }

  /** Detaches the device below, of a volume that nothing shows any more; where devices go automatically it has gone. */
  async function letGo(lower: Attached): Promise<void> {
    if ((await uppersOf(lower)).length === 0) await attacher.detach(lower);
  }

  /** The devices of this pool that a mapper is over. */
  async function lowersOf(mapper: MappedOver): Promise<Attached[]> {
    const id = volumeOfMapper(mapper.name);
    if (id === undefined) return [];
    const lowers = await attacher.attached(id);
    return lowers.filter((lower) => isBelow(mapper, lower));
  }

  async function detachOrphans(): Promise<VolumeId[]> {
    const table = await readMountTable(queue);
    const detached: VolumeId[] = [];
    const mappers = await findMapped(queue, (name) => isDraftOf(name, tag) || volumeOfMapper(name) !== undefined);
    for (const mapper of mappers) {
      const id = volumeOfMapper(mapper.name);
      // A draft of a killed driver is of no use; a program that still uses it ends in a moment.
      if (id === undefined) await closeMapper(queue, mapper);
      if (id === undefined || (await lowersOf(mapper)).length === 0) continue;
      if (table.some((mount) => isNodeOf(mount, mapper.devicePath)) || !(await isUnused(queue, mapper))) continue;
      await closeMapper(queue, mapper);
      detached.push(id);
    }
    return [...new Set([...detached, ...(await attacher.detachOrphans())])];
  }

  async function grown(id: VolumeId): Promise<void> {
    await attacher.grown?.(id);
    for (const lower of await attacher.attached(id)) {
      for (const { name } of await uppersOf(lower)) await resizeMapper(parts, name);
    }
  }

  return {
    attach,
    attached: async (id) => topOf(await attacher.attached(id)),
    inUse,
    detach,
    async volumeSeen(seen) {
      const mapper = seen.device === undefined ? undefined : mappedDevice(seen.device);
      const id = mapper === undefined ? undefined : volumeOfMapper(mapper.name);
      if (mapper === undefined || id === undefined) return attacher.volumeSeen(seen);
      const [device] = mapper.backing;
      if (device !== undefined) return attacher.volumeSeen({ ...seen, device });
      // Its disk was pulled: by its name alone, if the volume is of this pool.
      const { volumes } = await inner.records.read(id);
      return volumes.records.some((record) => record.id === id) ? seenVolume(id, seen) : undefined;
    },
    all: async () => topOf(await attacher.all()),
    counts: () => attacher.counts(),
    detachOrphans,
    grown,
    forget: (id) => attacher.forget?.(id),
    rescue: {
      async attached(id) {
        const mappers = await queue.rescue((rescue) => findMapped(rescue, (name) => name === mapperName(id)));
        // Not within that rescue: the backend below starts its own, and there is one place for them.
        return mappers.length > 0 ? mappers.map(shown) : attacher.rescue.attached(id);
      },
      async detach(attached) {
        const mapper = attached.kind === 'device' ? ownMapper(attached) : undefined;
        if (mapper === undefined) return attacher.rescue.detach(attached);
        await queue.rescue((rescue) => closeMapper(rescue, mapper));
        const id = volumeOfMapper(mapper.name);
        const lowers = id === undefined ? [] : await attacher.rescue.attached(id);
        for (const lower of lowers) if (isBelow(mapper, lower)) await attacher.rescue.detach(lower);
      },
      volumeSeen: (seen) => attacher.rescue.volumeSeen({ ...seen, device: seenBelow(seen.device) }),
    },
  };
}

function isBelow({ backing }: MappedOver, lower: Attached): boolean {
  return lower.kind === 'device' && backing.some((each) => sameDevice(each, lower.device));
}

function ownMapper({ device }: AttachedDevice): MappedOver | undefined {
  const mapper = mappedDevice(device);
  return mapper !== undefined && volumeOfMapper(mapper.name) !== undefined ? mapper : undefined;
}

/** The device that the backend below knows: the one that the mapper is over. */
function seenBelow(device: AttachedDevice['device'] | undefined): AttachedDevice['device'] | undefined {
  const mapper = device === undefined ? undefined : mappedDevice(device);
  if (mapper === undefined || volumeOfMapper(mapper.name) === undefined) return device;
  return mapper.backing[0];
}
