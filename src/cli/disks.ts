import type { Config } from '../config/config.ts';
import { DiskQueue } from '../kernel/call/disk-queue.ts';
import { type DiskSight, lookAtDisks } from '../pool/kinds.ts';
import { formatBytes } from '../volume/size.ts';
import { exitCodes, type Output, toJson } from './output.ts';
import { tableLines } from './table.ts';
import { printable } from './text.ts';

const columns = [
  { title: 'DISK' },
  { title: 'SIZE', align: 'right' },
  { title: 'BUS' },
  { title: 'MODEL' },
  { title: 'ID' },
  { title: 'POOL' },
  { title: 'USE' },
] as const;

/** Disks that are read at a time, beside those that hang. */
const placesForDisks = 4;

/** `holdfast disks`: every disk of this node, and what it is, or why it cannot be, to a pool of disks. */
export async function disksCommand({ pools }: Config, output: Output, options: { json: boolean }): Promise<number> {
  const queue = new DiskQueue('disks', placesForDisks);
  const disks = await lookAtDisks(pools, queue);
  if (options.json) output.line(toJson<'disks'>({ disks }));
  else for (const line of tableLines(columns, disks.map(rowOf))) output.line(line);
  return exitCodes.ok;
}

function rowOf({ bus, devicePath, ids, model, pool, sizeBytes, use }: DiskSight): string[] {
  return [
    devicePath,
    formatBytes(sizeBytes),
    bus,
    printable(model ?? '-'),
    printable(ids.at(-1) ?? '-'),
    pool ?? '-',
    use,
  ];
}
