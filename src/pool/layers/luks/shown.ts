import { mappedOver } from '../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { mapperName } from '../../../volume/mapper-name.ts';
import type { PoolSight, Shown } from '../../sight.ts';

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
