import type { DeviceMapper, MappedState } from '../../../kernel/block/device-mapper.ts';
import type { GroupState } from './group-state.ts';
import { mappedName, mappedUuidPrefix } from './names.ts';

/** By its name, which another group may have had: the UUID tells. */
export function findDevice(
  mapper: DeviceMapper,
  { name, uuid }: Pick<GroupState, 'name' | 'uuid'>,
  lvName: string,
): MappedState | undefined {
  const mapped = mapper.find(mappedName(name, lvName));
  return mapped?.uuid.startsWith(mappedUuidPrefix(uuid)) === true ? mapped : undefined;
}
