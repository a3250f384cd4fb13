import type { MappedOver } from '../../../../kernel/block/device-mapper.ts';
import { sameDevice } from '../../../../kernel/device.ts';
import { InternalError } from '../../../../volume/errors.ts';
import type { VolumeHandle } from '../../../../volume/handle.ts';
import { mapperName } from '../../../../volume/mapper-name.ts';
import { locateDevice } from '../../../location/disk/found-disk.ts';
import { openMapper as openDeviceMapper } from '../../../mapped-device.ts';
import type { NodeSide, NodeSideContext, VolumeOnNode } from '../../../node-side.ts';
import type { Attached, AttachedDevice, Attachment, AttachOptions } from '../../../pool.ts';
import { over } from '../../over.ts';
import { keyFields } from '../key.ts';
import { keysOfNamed } from '../key-ring.ts';
import { closeMapper, openMapper, resizeMapper, stateOf } from '../mapper.ts';
import { openOver, shown } from '../open-over.ts';
import { LuksPrograms } from '../programs.ts';
import { replaceKey } from '../rekey.ts';
import { belowNamed, isEncrypted } from './below.ts';
import { prepareDisk, requirePrepared } from './first-use.ts';
import { allMappersOf, closeMappers, mappersOf } from './mappers.ts';

/**
 * The side of a kind, with a mapper over the device of each encrypted volume: only the mapper is mounted and shown. It is closed
 * before the device is let go.
 */
export function encryptableSide(inner: NodeSide, { log, queue }: NodeSideContext): NodeSide {
  const programs = new LuksPrograms(queue);
  /** Calls that wait for the server take all places of the other. */
  const beside = queue.beside('mapper', 1);
  const parts = { programs, queue };

  async function attach(volume: VolumeOnNode, options: AttachOptions): Promise<Attachment> {
    if (!isEncrypted(volume)) return await inner.attach(volume, options);
    // A program would get all fields of the Secret.
    const lower = await inner.attach(belowNamed(volume), { ...options, secrets: options.secrets?.without(keyFields) });
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
    { isReadonly = false, secrets }: AttachOptions,
  ): Promise<MappedOver> {
    const keys = keysOfNamed(handle, secrets);
    const { devicePath } = lower;
    const prepared = await prepareDisk(parts, { handle, content, lower, keys, isReadonly, log });
    const { keyId } = prepared;
    const opened = { id: handle, encryption: keyId === undefined ? undefined : { keyId } };
    await replaceKey(parts, opened, devicePath, keys);
    const { disk } = (await locateDevice(queue, devicePath, lower.device)).place;
    const request = { devicePath, name: mapperName(handle), type: 'luks', isReadonly: disk.isReadonly } as const;
    const mapper = await openMapper(parts, opened, { ...request, key: keys.current });
    await requirePrepared(queue, handle, lower, prepared).catch(async (error) => {
      await closeMapper(queue, mapper);
      throw error;
    });
    return mapper;
  }

  /** One that a driver before this one has left over a device that was since connected again. */
  async function closeStale(handle: VolumeHandle, lower: AttachedDevice): Promise<void> {
    for (const mapper of await allMappersOf(queue, handle, [])) {
      if (mapper.backing.some((each) => sameDevice(each, lower.device))) continue;
      if ((await stateOf(queue, mapper))?.openCount === 0) await closeMapper(queue, mapper);
    }
  }

  async function attached(volume: VolumeOnNode): Promise<Attached[]> {
    const mappers = isEncrypted(volume) ? await mappersOf(beside, volume.handle) : [];
    return mappers.length > 0 ? mappers.map(shown) : await inner.attached(belowNamed(volume));
  }

  /** @throws Unavailable while it is in use: another node would open the volume then */
  async function close(volume: VolumeOnNode): Promise<void> {
    const lower = (await inner.attached(belowNamed(volume))).flatMap((each) =>
      each.kind === 'device' ? each.device : [],
    );
    await closeMappers(beside, volume.handle, () => allMappersOf(beside, volume.handle, lower));
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
    if (isEncrypted(volume))
      for (const { name } of await mappersOf(beside, volume.handle)) await resizeMapper(parts, name);
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
