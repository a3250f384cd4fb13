import { mappedDevice, mappedOver } from '../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { mapperName, volumeOfMapper } from '../../../volume/mapper-name.ts';
import { seenVolume } from '../../device-content.ts';
import type { Seen, SeenVolume } from '../../pool.ts';
import type { PoolSight, Shown } from '../../sight.ts';

/** The encrypted volume that something seems to be of, by the name alone that the kernel has for its device. */
export function encryptedByName(seen: Seen): SeenVolume | undefined {
  const { device } = seen;
  const mapper = device === undefined ? undefined : mappedDevice(device);
  const id = mapper && volumeOfMapper(mapper.name);
  return id && seenVolume(id, seen);
}

/** An encrypted volume is reached through its mapper, and through nothing else: asks the kernel alone. */
export async function shownThroughMappers(queue: DiskQueue, sight: PoolSight): Promise<PoolSight> {
  const { contents } = sight;
  if (contents === undefined || contents.shown.size === 0) return sight;
  const encrypted = contents.records.filter(({ encryption }) => encryption !== undefined);
  const shown = new Map(contents.shown);
  for (const { id } of encrypted) {
    const uppermost = (contents.shown.get(id) ?? []).map((each) => throughMapper(queue, mapperName(id), each));
    if (uppermost.length > 0) shown.set(id, (await Promise.all(uppermost)).flat());
  }
  return { ...sight, contents: { ...contents, shown } };
}

async function throughMapper(queue: DiskQueue, name: string, below: Shown): Promise<Shown[]> {
  if (below.kind !== 'device') return [below];
  const uppers = (await mappedOver(queue, below.device)).filter((upper) => upper.name === name);
  if (uppers.length === 0) return [below];
  return uppers.map(({ device, devicePath }) => ({ kind: 'device', path: devicePath, device }));
}
