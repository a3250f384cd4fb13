import { setTimeout as delay } from 'node:timers/promises';
import { findMapped, type MappedOver } from '../../../../kernel/block/device-mapper.ts';
import { sameDevice } from '../../../../kernel/device.ts';
import { liveFilesystem } from '../../../../kernel/mount/mounted-device.ts';
import { InternalError, Unavailable } from '../../../../volume/errors.ts';
import type { VolumeHandle } from '../../../../volume/handle.ts';
import { mapperName } from '../../../../volume/mapper-name.ts';
import { locateDevice } from '../../../location/disk/found-disk.ts';
import { openMapper as openDeviceMapper, settlePausesMs } from '../../../mapped-device.ts';
import type { NodeSide, NodeSideContext, VolumeOnNode } from '../../../node-side.ts';
import type { Attached, AttachedDevice, Attachment, AttachOptions } from '../../../pool.ts';
import { over } from '../../over.ts';
import { keysOfNamed } from '../key-ring.ts';
import { closeMapper, openMapper, resizeMapper, stateOf } from '../mapper.ts';
import { openOver, shown } from '../open-over.ts';
import { LuksPrograms } from '../programs.ts';
import { replaceKey } from '../rekey.ts';
import { belowNamed, isEncrypted } from './below.ts';
import { isDraftOfNamed, prepareDisk } from './first-use.ts';

/**
 * The side of a kind, with a mapper over the device of each encrypted volume: only the mapper is mounted and shown. It is closed
 * before the device is let go.
 */
export function encryptableSide(inner: NodeSide, { log, queue }: NodeSideContext): NodeSide {
  const programs = new LuksPrograms(queue);
  /** Calls that wait for the server take all places of the other. */
  const beside = queue.beside('mapper', 1);
  const parts = { programs, queue };

  const mappersOf = (handle: VolumeHandle) => findMapped(beside, (name) => name === mapperName(handle));

  /** With those of a first use that was cut short. */
  const allMappersOf = (handle: VolumeHandle) =>
    findMapped(beside, (name) => name === mapperName(handle) || isDraftOfNamed(name, handle));

  async function attach(volume: VolumeOnNode, options: AttachOptions): Promise<Attachment> {
    const lower = await inner.attach(belowNamed(volume), options);
    if (!isEncrypted(volume)) return lower;
    try {
      if (lower.kind !== 'device') throw new InternalError(`volume ${volume.handle} has no device to be encrypted on.`);
      await openDeviceMapper(queue, `volume ${volume.handle}`);
      await closeStale(volume.handle, lower);
      const { descriptor, mapper } = await openOver(queue, volume.handle, lower, {
        isToStay: true,
        open: () => open(volume, lower, options),
      });
      return { ...shown(mapper), descriptor, release: () => descriptor[Symbol.asyncDispose]() };
    } finally {
      // The mapper holds the device.
      await lower.release();
    }
  }

  async function open(
    { content, handle }: VolumeOnNode,
    lower: AttachedDevice,
    { secrets }: AttachOptions,
  ): Promise<MappedOver> {
    const keys = keysOfNamed(handle, secrets);
    const { devicePath } = lower;
    const { keyId } = await prepareDisk(parts, { handle, content, lower, key: keys.current, log });
    const opened = { id: handle, encryption: keyId === undefined ? undefined : { keyId } };
    await replaceKey(parts, opened, devicePath, keys);
    const { disk } = (await locateDevice(queue, devicePath, lower.device)).place;
    const request = { devicePath, name: mapperName(handle), type: 'luks', isReadonly: disk.isReadonly } as const;
    return await openMapper(parts, opened, { ...request, key: keys.current });
  }

  /** One that a driver before this one has left over a device that was since connected again. */
  async function closeStale(handle: VolumeHandle, lower: AttachedDevice): Promise<void> {
    for (const mapper of await allMappersOf(handle)) {
      if (mapper.backing.some((each) => sameDevice(each, lower.device))) continue;
      if ((await stateOf(queue, mapper))?.openCount === 0) await closeMapper(queue, mapper);
    }
  }

  async function attached(volume: VolumeOnNode): Promise<Attached[]> {
    const mappers = isEncrypted(volume) ? await mappersOf(volume.handle) : [];
    return mappers.length > 0 ? mappers.map(shown) : await inner.attached(belowNamed(volume));
  }

  /** @throws Unavailable while it is in use: another node would open the volume then */
  async function close({ handle }: VolumeOnNode): Promise<void> {
    for (const pauseMs of [...settlePausesMs, undefined]) {
      const mappers = await allMappersOf(handle);
      const [mapper] = mappers;
      if (mapper === undefined) return;
      const live = liveFilesystem(mapper.devicePath);
      if (live !== undefined) throw stillUsed(handle, `its ${live} is still in use on ${mapper.devicePath}`);
      for (const each of mappers) await closeMapper(beside, each);
      if (pauseMs === undefined) throw stillUsed(handle, `a program still has ${mapper.devicePath} open (see lsof)`);
      await delay(pauseMs);
    }
  }

  async function detach(volume: VolumeOnNode, given: Attached): Promise<void> {
    if (!isEncrypted(volume)) return await inner.detach?.(volume, given);
    await close(volume);
    const below = belowNamed(volume);
    for (const lower of await inner.attached(below)) await inner.detach?.(below, lower);
  }

  async function forget(volume: VolumeOnNode): Promise<void> {
    if (isEncrypted(volume)) await close(volume);
    await inner.forget?.(belowNamed(volume));
  }

  async function grow(volume: VolumeOnNode, sizeBytes: bigint): Promise<bigint> {
    const grownBytes = (await inner.grow?.(belowNamed(volume), sizeBytes)) ?? sizeBytes;
    if (isEncrypted(volume)) for (const { name } of await mappersOf(volume.handle)) await resizeMapper(parts, name);
    return grownBytes;
  }

  const { condition, isAnswering, isLost, quotaUsage, unmount } = inner;
  return over<NodeSide>(inner, {
    ...{ attach, attached, detach, forget },
    grow: inner.grow && grow,
    unmount: unmount && ((volume, place) => unmount.call(inner, belowNamed(volume), place)),
    isLost: isLost && ((volume, mount) => isLost.call(inner, belowNamed(volume), mount)),
    quotaUsage: quotaUsage && ((volume) => quotaUsage.call(inner, belowNamed(volume))),
    isAnswering: isAnswering && ((volume) => isAnswering.call(inner, belowNamed(volume))),
    condition: condition && ((volume) => condition.call(inner, belowNamed(volume))),
  });
}

function stillUsed(handle: VolumeHandle, reason: string): Unavailable {
  return new Unavailable(
    `volume ${handle}: ${reason}: a program or a container has it, or it is being written back (see holdfast who). It is tried again.`,
  );
}
