import { openReadOnly } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { explain } from '../../../../kernel/call/explain.ts';
import { factsOf } from '../../../location/disk/candidate.ts';
import { type FoundDisk, locateDisk } from '../../../location/disk/found-disk.ts';
import { whyNotFree } from '../../../location/disk/free-disk.ts';
import { markerPathOf, readMarker } from '../../../records/pool-file.ts';
import { type Finding, type LocationSight, ok, warn } from '../../../sight.ts';
import { GroupNote } from './group-note.ts';
import type { GroupState } from './group-state.ts';
import { isIn } from './own-group.ts';

interface DevicesRequest {
  readonly queue: DiskQueue;
  readonly poolName: string;
  readonly dataDirectory: string;
  readonly devices: readonly string[];
}

/**
 * The finding about a group that is not there, and will be made of disks.
 * @returns undefined if there was one: its disks are away
 */
export async function lookAtNoGroup(
  request: DevicesRequest,
  volumeGroup: string,
): Promise<Pick<LocationSight, 'state' | 'advice'> | undefined> {
  const { dataDirectory, devices, poolName, queue } = request;
  if ((await readMarker(queue, markerPathOf(dataDirectory, poolName))) !== undefined) return undefined;
  if ((await new GroupNote(queue, dataDirectory, poolName).read()) !== undefined) {
    return {
      state: 'absent',
      advice: `volume group ${volumeGroup} is half made: the driver finishes it at its next start.`,
    };
  }
  const looks = await Promise.all(devices.map((path) => look(request, path)));
  const against = looks.flatMap(({ path, reason }) => (reason === undefined ? [] : [`${path}: ${reason}`]));
  if (against.length > 0) {
    return { state: 'broken', advice: `volume group ${volumeGroup} cannot be made: ${against.join('; ')}.` };
  }
  return {
    state: 'absent',
    advice: `the driver makes volume group ${volumeGroup} at its first start (holdfast serve).`,
  };
}

/** Checks that the group lies on the disks that are named, and on no other. */
export async function devicesFinding(request: DevicesRequest, state: GroupState): Promise<Finding> {
  const check = 'devices';
  const looks = await Promise.all(request.devices.map((path) => look(request, path)));
  const isOf = ({ found }: Look) => found !== undefined && isIn(state, found);
  const others = looks.filter((each) => !isOf(each));
  const unnamed = state.physicalVolumes.filter(
    (each) =>
      !each.isMissing && !looks.some(({ found }) => found !== undefined && isIn({ physicalVolumes: [each] }, found)),
  );
  if (others.length === 0 && unnamed.length === 0) return ok(check, `all are of ${state.name} (${looks.length})`);
  const sentences = [
    ...others.map(
      ({ path, reason }) => `${path} is not of ${state.name}: ${reason ?? 'it is added at the next start'}`,
    ),
    ...unnamed.map(({ path }) => `${path} is of ${state.name}, and not named`),
  ];
  return warn(check, sentences.join('; '), 'The pool continues with the disks that it has. See docs/lvm.md.');
}

interface Look {
  readonly path: string;
  readonly found: FoundDisk | undefined;
  /** The reason why it cannot be taken; undefined: it can. */
  readonly reason: string | undefined;
}

async function look({ poolName, queue }: DevicesRequest, path: string): Promise<Look> {
  let found: FoundDisk | undefined;
  try {
    found = await locateDisk(queue, poolName, path);
    await using device = await openReadOnly(queue, found.devicePath);
    const reasons = whyNotFree(await factsOf(queue, found, device));
    return { path, found, reason: reasons.length === 0 ? undefined : reasons.join('; ') };
  } catch (error) {
    if (queue.closedFor !== undefined) throw error;
    return { path, found, reason: explain(error).replace(`pool ${poolName}: `, '') };
  }
}
