import type { DeviceMapper, MappedState } from '../../../kernel/block/device-mapper.ts';
import type { GroupState } from './group/group-state.ts';
import { mappedName, mappedUuidPrefix } from './names.ts';

/**
 * By its name, which another group may have had: the UUID tells. One that has no table yet is none: the program that was
 * creating it was killed, and LVM gives it one at the next activation.
 */
export function findDevice(
  mapper: DeviceMapper,
  { name, uuid }: Pick<GroupState, 'name' | 'uuid'>,
  lvName: string,
): MappedState | undefined {
  const mapped = mapper.find(mappedName(name, lvName));
  return mapped?.isLive === true && mapped.uuid.startsWith(mappedUuidPrefix(uuid)) ? mapped : undefined;
}
