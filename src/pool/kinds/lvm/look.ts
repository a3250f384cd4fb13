import { type DeviceMapper, type MappedOver, mappedPath } from '../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { type LockHolder, lockHolders } from '../../../kernel/process/lock.ts';
import { HoldfastError } from '../../../volume/errors.ts';
import { parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import type { RecordReader } from '../../backend.ts';
import { lookAtRecords } from '../../catalog/look.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { Configured, LookRequest } from '../../kind.ts';
import { openMapper } from '../../mapped-device.ts';
import { type Finding, ok, type PoolContents, type PoolSight, type Shown, warn } from '../../sight.ts';
import { Lvm } from './commands/lvm.ts';
import { findLvm } from './commands/place.ts';
import type { LvmOptions } from './config.ts';
import type { GroupState } from './group/group-state.ts';
import { devicesFinding, lookAtNoGroup } from './group/look-at-devices.ts';
import { findGroup } from './group/own-group.ts';
import { findSuspended } from './group/suspended.ts';
import { findDevice } from './mapped-lv.ts';
import { poolLvName } from './names.ts';
import { readGroup } from './open.ts';
import { readIdentity } from './pool-volume.ts';
import { type LvSource, readLvTrash, readRecords } from './record-store.ts';
import { LvmSpace, type SpaceOfGroup } from './space.ts';
import { lookAtThinPool, thinFinding } from './thin/look.ts';
import { ThinSpace } from './thin/space.ts';
import { thinTraits } from './thin/traits.ts';
import { linearTraits } from './traits.ts';
import { markIn } from './transfer.ts';

/** Looks at a volume group by one report of LVM. */
export async function lookAtLvmPool(pool: Configured<LvmOptions>, request: LookRequest): Promise<PoolSight> {
  const { queue } = request;
  const { devices, volumeGroup } = pool.own;
  const named = { ...request, poolName: pool.name, devices };
  const location = { type: 'volume group', path: volumeGroup, holders: [] };
  try {
    const lvm = new Lvm(await findLvm(queue), queue);
    if (devices.length > 0 && (await findGroup(lvm, pool.name, volumeGroup)) === undefined) {
      const none = await lookAtNoGroup(named, volumeGroup);
      if (none !== undefined) return { location: { ...location, ...none }, contents: undefined };
    }
    const state = await readGroup(lvm, pool.name, volumeGroup);
    const id = await readIdentity({ ...request, poolName: pool.name }, state);
    const mapper = await openMapper(queue, `pool ${pool.name}`);
    const read = await readContents(pool, request, state, mapper);
    const contents =
      devices.length === 0 ? read : { ...read, findings: [...read.findings, await devicesFinding(named, state)] };
    const holders = await holdersOf(queue, state, mapper);
    const absent = `${volumeGroup} holds no pool yet: the driver makes it at its first start (holdfast serve).`;
    const found = id === undefined ? ({ state: 'absent', advice: absent } as const) : ({ state: 'open' } as const);
    return { location: { advice: undefined, ...location, ...found, holders }, contents };
  } catch (error) {
    if (queue.closedFor !== undefined && !(error instanceof HoldfastError)) throw error;
    const advice = explain(error).replace(`pool ${pool.name}: `, '');
    return { location: { ...location, state: 'broken', advice }, contents: undefined };
  }
}

async function readContents(
  pool: Configured<LvmOptions>,
  { dataDirectory, queue, wanted }: LookRequest,
  state: GroupState,
  mapper: DeviceMapper,
): Promise<PoolContents> {
  const source: LvSource = {
    state,
    get: (name) => state.lvs.get(name),
    inState: (wantedState) => [...state.lvs.values()].filter((lv) => lv.state === wantedState),
  };
  const group: SpaceOfGroup = {
    ...{ poolName: pool.name, state, freeBytes: state.freeBytes, get: source.get },
    find: (id) => [...source.inState('volume'), ...source.inState('snapshot')].find((lv) => lv.id === id),
    all: () => state.lvs.values(),
    refresh: async () => undefined,
  };
  const thin = await lookAtThinPool(queue, mapper, state);
  const overcommit = pool.own.thinPool?.overcommit ?? 1;
  const space = thin === undefined ? new LvmSpace(group) : new ThinSpace(group, thin, { overcommit });
  const reader: RecordReader = { read: async () => readRecords(source), readTrash: async () => readLvTrash(source) };
  const marks = {
    ...{ readMark: async (id: SnapshotId) => markIn(group.find(id)), queue, dataDirectory },
    markInTrash: async (ref: TrashRef) => markIn(group.get(ref)),
  };
  const contents = await lookAtRecords(pool, { reader, source: space, wanted, marks });
  const shown = source.inState('volume').flatMap((lv): [VolumeId, Shown[]][] => {
    const id = parseVolumeId(lv.id ?? '');
    const mapped = findDevice(mapper, state, lv.name);
    if (id === undefined || mapped === undefined) return [];
    return [[id, [{ kind: 'device', path: mappedPath(mapped.device), device: mapped.device }]]];
  });
  return {
    ...contents,
    traits: pool.own.thinPool === undefined ? linearTraits(state.extentBytes) : thinTraits(state.extentBytes),
    findings: [
      disksFinding(state),
      ...(thin === undefined ? [] : [thinFinding(thin, overcommit)]),
      ...suspendedFindings(await findSuspended(queue, mapper, state.uuid)),
    ],
    shown: new Map(shown),
  };
}

async function holdersOf(queue: DiskQueue, state: GroupState, mapper: DeviceMapper): Promise<LockHolder[]> {
  const mapped = findDevice(mapper, state, poolLvName);
  return mapped === undefined ? [] : await lockHolders(queue, mappedPath(mapped.device)).catch(() => []);
}

function disksFinding({ name, physicalVolumes }: GroupState): Finding {
  const missing = physicalVolumes.filter(({ isMissing }) => isMissing);
  const check = 'volume group';
  if (missing.length === 0) return ok(check, `${name}: all of its disks are there (${physicalVolumes.length})`);
  const detail = `${name}: ${missing.length} of its ${physicalVolumes.length} disks are missing (${missing.map(({ uuid }) => uuid).join(', ')})`;
  return warn(check, detail, 'Put them back. As long as they are missing, nothing is changed in the group.');
}

/** By a driver or an LVM that was killed in the middle: for its users it is as if the disk did not answer. */
function suspendedFindings(suspended: readonly MappedOver[]): Finding[] {
  if (suspended.length === 0) return [];
  const names = suspended.map(({ name }) => name).join(', ');
  const detail = `suspended just now, so that reads and writes wait: ${names}`;
  const remedy =
    'If they stay so and no lvm runs: start the driver. By hand: one after the other, in this order, dmsetup clear and dmsetup resume.';
  return [warn('devices', detail, remedy)];
}
