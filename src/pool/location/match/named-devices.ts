import { stat } from 'node:fs/promises';
import type { Disk } from '../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../../kernel/call/errno.ts';
import { deviceNumber, sameDevice } from '../../../kernel/device.ts';
import type { NamedDevice } from '../../kind.ts';
import { markerPathOf, readMarker } from '../../records/pool-file.ts';

/** The devices that other pools of the configuration name. */
export interface NamedDevices {
  /** Pools that name a disk, or a part of it: `pool fast`. */
  ownersOf(disk: Disk): string[];
  /** Pools that were never made, and name a device that is not there: a blank disk that comes could be theirs. */
  readonly awaited: readonly NamedDevice[];
  /** The pool that this node has had under this id. */
  readonly poolsById: ReadonlyMap<string, string>;
}

/** The devices that their paths stand for now. No disk is asked. */
export async function namedDevices(
  queue: DiskQueue,
  dataDirectory: string,
  named: readonly NamedDevice[],
): Promise<NamedDevices> {
  const there: { readonly poolName: string; readonly rdev: bigint }[] = [];
  const awaited: NamedDevice[] = [];
  const poolsById = new Map<string, string>();
  for (const each of named) {
    const { path, poolName } = each;
    const status = await queue.run(() => stat(path, { bigint: true })).catch(ignoreMissing);
    const id = await readMarker(queue, markerPathOf(dataDirectory, poolName));
    if (id !== undefined) poolsById.set(id, poolName);
    if (status !== undefined) there.push({ poolName, rdev: status.rdev });
    else if (id === undefined) awaited.push(each);
  }
  const ownersOf = ({ device, partitions }: Disk) => {
    const devices = [device, ...partitions.map((partition) => partition.device)];
    const owners = there.filter(({ rdev }) => devices.some((own) => sameDevice(own, deviceNumber(rdev))));
    return [...new Set(owners.map(({ poolName }) => `pool ${poolName}`))];
  };
  return { ownersOf, awaited, poolsById };
}
