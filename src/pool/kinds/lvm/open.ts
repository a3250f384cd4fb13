import { stat } from 'node:fs/promises';
import { release } from 'node:os';
import type { DeviceMapper } from '../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { Held } from '../../../volume/held.ts';
import { granularityBytes } from '../../../volume/size.ts';
import type { OpenContext, ReadyBackend } from '../../kind.ts';
import type { PoolDisk } from '../../location/match/one-disk.ts';
import { openMapper } from '../../mapped-device.ts';
import { Wiper } from '../../wipe/wiper.ts';
import { blockSizeOf } from './block-size.ts';
import { failureOf } from './commands/failure.ts';
import { isLvmError, Lvm } from './commands/lvm.ts';
import { findLvm } from './commands/place.ts';
import type { LvmOptions } from './config.ts';
import { type GroupState, groupStateOf } from './group/group-state.ts';
import { ensureGroup } from './group/own-group.ts';
import { explainLvm, missingGroup, refuseCopies, twoGroups } from './group/trouble.ts';
import { VolumeGroup } from './group/volume-group.ts';
import { LvmBackend, type LvmBackendOptions } from './lvm-backend.ts';
import { hasRoomForNote, PoolVolume } from './pool-volume.ts';
import { MetadataSnapshots } from './thin/changes/metadata-snapshots.ts';
import { SnapshotNotes } from './thin/changes/snapshot-note.ts';
import { openThinPool, refuseThinPool } from './thin/open.ts';
import { ThinWatch } from './thin/watch.ts';

export interface LvmPoolOptions extends OpenContext, LvmOptions {
  readonly name: string;
  /** The disk of a pool with `match`. */
  readonly matched?: PoolDisk | undefined;
}

/** mkfs processes at a time; more only makes each of them slower. */
const formatsAtOnce = 8;
const callsAtOnce = 4;
/** Reads of changed blocks do not delay other calls. */
const metadataCallsAtOnce = 2;
/** Each has a disk to write for itself, most often the same one. */
const wipesAtOnce = 2;

/** The targets that LVM wants the kernel to have in addition, for mirrors, and for thin volumes and their snapshots. */
const linearTargets = ['raid'];
const thinTargets = ['thin-pool', 'snapshot'];

/** Opens the storage of a pool in a volume group. */
export async function openLvmBackend(options: LvmPoolOptions): Promise<ReadyBackend> {
  const { log, name, queue, volumeGroup } = options;
  const held = new Held();
  try {
    const lvm = new Lvm(await findLvm(queue), queue);
    lvm.whenSlow = (command) =>
      log.warn(
        { pool: name, volume_group: volumeGroup, command },
        'LVM has not ended for a minute: it waits for a disk, for another LVM (/run/lock/lvm), or for udev (dmsetup udevcookies)',
      );
    await ensureGroup({ ...options, poolName: name }, lvm);
    const state = await readGroup(lvm, name, volumeGroup);
    const mapper = await openMapper(queue, `pool ${name}`);
    await loadTargets(queue, mapper, options.thinPool === undefined ? linearTargets : thinTargets);
    const group = new VolumeGroup(name, lvm, mapper, state);
    // Before this node remembers which pool is here.
    await group.flush();
    const poolVolume = held.use(await PoolVolume.open({ ...options, poolName: name }, group));
    // A driver that had the lock until now may have changed it.
    const { differ, differed } = await group.settle();
    if (differed) {
      const became = differ ? 'and still do: see vgck(8), --updatemetadata' : 'as after a power cut, and agree again';
      log.warn(
        { pool: name, volume_group: volumeGroup },
        `the disks of the volume group differed in what they say of it, ${became}`,
      );
    }
    const resumed = await group.resumeLeft(queue);
    if (resumed.length > 0) {
      const devices = { pool: name, volume_group: volumeGroup, devices: resumed };
      log.warn(devices, 'resumed devices that a killed driver, or a killed LVM, had left suspended');
    }
    const backend = new LvmBackend({
      ...{ group, held, poolVolume, queue },
      calls: queue.beside('volumes', callsAtOnce),
      formatQueue: queue.beside('mkfs', formatsAtOnce),
      wiper: new Wiper({ poolName: name, log, queue, atOnce: wipesAtOnce }),
      wipePolicy: options.wipe,
      blockSizeBytes: await blockSizeOf(queue, state),
      // Its watch ends with the backend.
      ...(await openThin(options, group, { lvm, mapper, poolVolume })),
    });
    return { backend, facts: { pool_id: poolVolume.id, volume_group: volumeGroup, lvm: lvm.runner.place } };
  } catch (error) {
    await held[Symbol.asyncDispose]();
    throw error;
  }
}

/** @throws FailedPrecondition if the pool is not what the configuration says */
async function openThin(
  { log, name, queue, thinPool }: LvmPoolOptions,
  group: VolumeGroup,
  { lvm, mapper, poolVolume }: { readonly lvm: Lvm; readonly mapper: DeviceMapper; readonly poolVolume: PoolVolume },
): Promise<Pick<LvmBackendOptions, 'metadataSnapshots' | 'thin' | 'thinWatch'>> {
  if (thinPool === undefined) {
    refuseThinPool(group);
    return {};
  }
  lvm.lookAfterThinPool();
  const thin = await openThinPool(group, mapper, { ...thinPool, log, queue });
  let metadataSnapshots: MetadataSnapshots | undefined;
  if (hasRoomForNote(group.state.extentBytes)) {
    const calls = queue.beside('metadata', metadataCallsAtOnce);
    const notes = new SnapshotNotes(poolVolume, calls);
    metadataSnapshots = new MetadataSnapshots(thin, { log, notes, queue: calls });
    await metadataSnapshots.open();
  }
  return { thin, metadataSnapshots, thinWatch: new ThinWatch(thin, { log, poolName: name }) };
}

/** @throws FailedPrecondition if it is not there, or cannot be used */
export async function readGroup(lvm: Lvm, poolName: string, vgName: string): Promise<GroupState> {
  try {
    const report = await lvm.report(vgName);
    const state = groupStateOf(report, vgName);
    if (state === undefined) throw missingGroup(poolName, vgName);
    refuseCopies(poolName, state);
    refuseUnfit(poolName, state, report.vg[0]?.['vg_attr'] ?? '');
    return state;
  } catch (error) {
    if (!isLvmError(error)) throw error;
    switch (failureOf(error)) {
      case 'no-group':
        throw missingGroup(poolName, vgName);
      case 'two-groups':
        throw twoGroups(poolName, vgName);
      case 'not-installed':
        throw new FailedPrecondition(
          `pool ${poolName}: there is no LVM on this node. Install lvm2; a container must see the node's processes (hostPID: true).`,
        );
      default:
        throw explainLvm(error, { poolName, vgName, neededBytes: 0n });
    }
  }
}

/** By vg_attr of vgs(8). */
function refuseUnfit(poolName: string, { extentBytes, name }: GroupState, attributes: string): void {
  const refuse = (what: string, remedy: string) => {
    throw new FailedPrecondition(`pool ${poolName}: volume group ${name} ${what}. ${remedy}`);
  };
  if (attributes[0] === 'r') refuse('is read-only', `If that is not meant: vgchange --permission rw ${name}`);
  if (attributes[2] === 'x') refuse('is exported', `If it belongs to this node: vgimport ${name}`);
  if (attributes[5] === 'c' || attributes[5] === 's')
    refuse('is shared by several nodes', 'Name one of this node alone.');
  if (extentBytes % granularityBytes !== 0n) {
    refuse(`has extents of ${extentBytes} bytes`, `They must be multiples of ${granularityBytes}.`);
  }
}

/**
 * LVM has modprobe load what it needs of the kernel, and says that there is no such target where that cannot: in a container
 * there are no modules. There the kernel is asked, which loads them as the node has them.
 */
async function loadTargets(queue: DiskQueue, mapper: DeviceMapper, types: readonly string[]): Promise<void> {
  const hasModules = await queue
    .run(() => stat(`/lib/modules/${release()}`))
    .then(
      () => true,
      () => false,
    );
  // LVM has the better message for a target that the kernel does not have.
  if (!hasModules) for (const each of types) await mapper.knows(queue, each);
}
