import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isSameDisk } from '../../../../kernel/block/disk-identity.ts';
import { explain } from '../../../../kernel/call/explain.ts';
import { sameDevice } from '../../../../kernel/device.ts';
import { syncDirectory } from '../../../../kernel/file/file.ts';
import { FailedPrecondition } from '../../../../volume/errors.ts';
import { Held } from '../../../../volume/held.ts';
import { step } from '../../../../volume/step.ts';
import type { OpenContext } from '../../../kind.ts';
import { type FoundDisk, locateDisk, swapped } from '../../../location/disk/found-disk.ts';
import { takeLock } from '../../../location/lock.ts';
import type { PoolDisk } from '../../../location/match/one-disk.ts';
import { markerPathOf, readMarker } from '../../../records/pool-file.ts';
import { blockSizeOf } from '../block-size.ts';
import { extendGroupArguments, makeGroupArguments, makePvArguments } from '../commands/arguments.ts';
import { failureOf } from '../commands/failure.ts';
import { isLvmError, type Lvm } from '../commands/lvm.ts';
import { readIdentity } from '../pool-volume.ts';
import { type BegunDisk, type BegunGroup, GroupNote } from './group-note.ts';
import { type GroupState, groupStateOf } from './group-state.ts';
import { type HeldDisk, holdDisk, identityOf } from './taken-disk.ts';
import { explainLvm, lostGroup, refuseCopies } from './trouble.ts';

export interface OwnGroupOptions extends OpenContext {
  readonly poolName: string;
  readonly volumeGroup: string;
  /** The disks for it. */
  readonly devices: readonly string[];
  /** The operator has not named it: a match has found it. */
  readonly matched?: PoolDisk | undefined;
}

interface Parts {
  readonly options: OwnGroupOptions;
  readonly lvm: Lvm;
  readonly note: GroupNote;
  readonly noted: BegunGroup | undefined;
}

const groupTag = 'holdfast.devices';

/**
 * Makes the pool's volume group of the disks that its configuration names, if there is none yet, and adds those that are
 * new. A start that was cut short at any moment is finished, on the same disks.
 * @throws FailedPrecondition if it cannot be made: nothing was written then
 */
export async function ensureGroup(options: OwnGroupOptions, lvm: Lvm): Promise<void> {
  const { dataDirectory, devices, matched, poolName, queue, volumeGroup } = options;
  if (devices.length === 0) return;
  const note = new GroupNote(queue, dataDirectory, poolName);
  await queue.run(async () => {
    await mkdir(dirname(note.lockPath), { recursive: true, mode: 0o700 });
    for (const path of [note.lockPath, note.commandLockPath]) await writeFile(path, '', { flag: 'a', mode: 0o600 });
  });
  // The note must be found after a power cut.
  await syncDirectory(queue, dataDirectory);
  await using _lock = await takeLock(options, note.lockPath);
  // A command of a driver that was killed still runs in LVM: first that ends, and then its result is seen.
  await (await takeLock(options, note.commandLockPath))[Symbol.asyncDispose]();
  const noted = await note.read();
  if (noted !== undefined && noted.volumeGroup !== volumeGroup) {
    throw new FailedPrecondition(
      `pool ${poolName}: its disks were begun to be taken for volume group ${noted.volumeGroup}, not ${volumeGroup}. Write that name, or clear the disks and remove ${note.path}.`,
    );
  }
  const parts = { options, lvm, note, noted };
  const state = await findGroup(lvm, poolName, volumeGroup);
  if (state !== undefined) refuseCopies(poolName, state);
  if (state !== undefined && matched?.isKnown === false) {
    throw new FailedPrecondition(
      `pool ${poolName}: there is a volume group ${volumeGroup} already, and this node does not know that it is the pool's. Name its disks with devices, or name another volumeGroup.`,
    );
  }
  if (state === undefined) await makeGroup(parts);
  else await extendGroup(parts, state);
}

/** @returns undefined if there is none of that name */
export async function findGroup(lvm: Lvm, poolName: string, volumeGroup: string): Promise<GroupState | undefined> {
  try {
    return groupStateOf(await lvm.report(volumeGroup), volumeGroup);
  } catch (error) {
    if (!isLvmError(error)) throw error;
    const failure = failureOf(error);
    if (failure === 'no-group') return undefined;
    throw explainLvm(error, { poolName, vgName: volumeGroup, neededBytes: 0n });
  }
}

/** Takes all disks that are named, or none. */
async function makeGroup(parts: Parts): Promise<void> {
  const { lvm, note, noted, options } = parts;
  const { dataDirectory, devices, log, matched, poolName, queue, volumeGroup } = options;
  if ((await readMarker(queue, markerPathOf(dataDirectory, poolName))) !== undefined) {
    throw lostGroup(poolName, volumeGroup);
  }
  const found = await Promise.all(devices.map((path) => locateDisk(queue, poolName, path)));
  refuseTwice(poolName, found);
  const other = found.find(({ name }) => matched !== undefined && name !== matched.identity);
  if (other !== undefined) throw swapped(other);
  const lost = noted?.disks.find(({ disk }) => !found.some((each) => isSameDisk(identityOf(each), disk)));
  if (lost !== undefined) {
    throw new FailedPrecondition(
      `pool ${poolName}: its volume group was begun on disk ${lost.disk.name}, which is not among its devices. Put it back, or remove ${note.path} to start over on others.`,
    );
  }
  await takeDisks(parts, { found, mayHaveVolumes: false, sectorBytes: undefined }, (paths) =>
    step('open/commit', () => lvm.change(makeGroupArguments(volumeGroup, groupTag, paths), note.commandLockPath)),
  );
  await lvm.flush(found.map(({ device }) => device));
  await step('open/unmark', () => note.clear());
  log.info({ pool: poolName, volume_group: volumeGroup, disks: devices }, 'a volume group was made of blank disks');
}

/** By disks that are blank. With one that cannot be taken the pool goes on without it. */
async function extendGroup(parts: Parts, state: GroupState): Promise<void> {
  const { lvm, note, options } = parts;
  const { devices, log, poolName, queue, volumeGroup } = options;
  const found = await Promise.all(
    devices.map((path) => locateDisk(queue, poolName, path).catch((error) => passOver(parts, path, error))),
  );
  const there = found.filter((each) => each !== undefined);
  refuseTwice(poolName, there);
  await requireOwn(options, state, there);
  const wanted = there.filter((each) => !isIn(state, each));
  if (wanted.length > 0 && state.physicalVolumes.some(({ isMissing }) => isMissing)) {
    // One of them may have been put into the place of the one that is missing.
    log.warn(
      { pool: poolName, volume_group: volumeGroup, disks: wanted.map(({ path }) => path) },
      'disks are not added to a volume group while one of its disks is missing',
    );
    return;
  }
  // The disks that an earlier start has added are durable before the note of its start is removed.
  const present = state.physicalVolumes.flatMap(({ device }) => device ?? []);
  if (parts.noted !== undefined) await lvm.flush(present);
  await forget(
    note,
    there.filter((each) => isIn(state, each)),
  );
  for (const each of wanted) {
    try {
      await addDisk(parts, state, each);
    } catch (error) {
      passOver(parts, each.path, error);
    }
  }
}

/** One by one: each is as good as it was, whatever the others are like. */
async function addDisk({ lvm, note, options }: Parts, state: GroupState, found: FoundDisk): Promise<void> {
  const { log, poolName, queue, volumeGroup } = options;
  const sectorBytes = await blockSizeOf(queue, state);
  const noted = await note.read();
  await takeDisks({ lvm, note, noted, options }, { found: [found], mayHaveVolumes: true, sectorBytes }, (paths) =>
    step('open/extend', () => lvm.change(extendGroupArguments(volumeGroup, paths), note.commandLockPath)),
  );
  await lvm.flush([...state.physicalVolumes.flatMap(({ device }) => device ?? []), found.device]);
  await forget(note, [found]);
  log.info({ pool: poolName, volume_group: volumeGroup, disk: found.path }, 'a disk was added to a volume group');
}

/** They are in the group. A disk that is away is added at a later start. */
async function forget(note: GroupNote, done: readonly FoundDisk[]): Promise<void> {
  const noted = await note.read();
  if (noted === undefined) return;
  const isDone = ({ disk }: BegunDisk) => done.some((each) => isSameDisk(identityOf(each), disk));
  const disks = noted.disks.filter((each) => !isDone(each));
  if (disks.length === noted.disks.length) return;
  await step('open/unmark', () => (disks.length > 0 ? note.write({ ...noted, disks }) : note.clear()));
}

/**
 * Before anything is changed in it: it was made of disks by a driver, for the pool that this node had; and on a node that had
 * none, it is all there, on the disks that are named.
 */
async function requireOwn(options: OwnGroupOptions, state: GroupState, there: readonly FoundDisk[]): Promise<void> {
  const { dataDirectory, poolName, queue, volumeGroup } = options;
  const { physicalVolumes, tags } = state;
  if (!there.some((each) => isIn(state, each))) {
    throw new FailedPrecondition(
      `pool ${poolName}: there is a volume group ${volumeGroup}, and it lies on none of its devices. Are the right disks there? Else name another volumeGroup.`,
    );
  }
  if (!tags.includes(groupTag)) {
    throw new FailedPrecondition(
      `pool ${poolName}: volume group ${volumeGroup} was not made by Holdfast. Take devices out of the pool's configuration, or name another volumeGroup.`,
    );
  }
  await readIdentity(options, state);
  if ((await readMarker(queue, markerPathOf(dataDirectory, poolName))) !== undefined) return;
  const named = { ...state, physicalVolumes: physicalVolumes.filter(({ isMissing }) => !isMissing) };
  const count = there.filter((each) => isIn(named, each)).length;
  if (count === physicalVolumes.length) return;
  throw new FailedPrecondition(
    `pool ${poolName}: this node does not know volume group ${volumeGroup}, and only ${count} of its ${physicalVolumes.length} disks are among the pool's devices. Name all of them.`,
  );
}

export function isIn({ physicalVolumes }: Pick<GroupState, 'physicalVolumes'>, { device }: FoundDisk): boolean {
  return physicalVolumes.some((each) => each.device !== undefined && sameDevice(each.device, device));
}

interface Wanted {
  readonly found: readonly FoundDisk[];
  readonly mayHaveVolumes: boolean;
  /** The group's; undefined: it is made of these disks alone. */
  readonly sectorBytes: number | undefined;
}

/**
 * Makes physical volumes of disks, each held exclusively while it is looked at, all of them before the first is written to.
 * @param use the work with them, while no other disk can have their numbers
 */
async function takeDisks(
  { lvm, note, noted, options }: Parts,
  { found, mayHaveVolumes, sectorBytes }: Wanted,
  use: (devicePaths: readonly string[]) => Promise<void>,
): Promise<void> {
  const { log, matched, poolName, queue, volumeGroup } = options;
  const place = { queue, poolName, log, isNamed: matched === undefined };
  await using held = new Held();
  const disks: HeldDisk[] = [];
  for (const each of found) {
    const disk = held.use(await holdDisk(place, each, noted && { ...noted, mayHaveVolumes }));
    refuseUnlike(poolName, disk, sectorBytes ?? disks[0]?.sectorBytes ?? disk.sectorBytes);
    disks.push(disk);
  }
  const begun = disks.map((disk) => disk.begun);
  const others = noted?.disks.filter((each) => !begun.includes(each)) ?? [];
  // From now on no other disk is taken for this pool.
  await matched?.remember();
  await step('open/mark', () => note.write({ volumeGroup, disks: [...begun, ...others] }));
  for (const disk of disks) await disk.clear();
  for (const disk of disks) {
    await disk.yieldToLvm();
    await step('open/format', async () => {
      await lvm.change(makePvArguments(disk.begun.pvUuid, disk.found.devicePath), note.commandLockPath);
      // The next step relies on its label.
      await lvm.flush([disk.found.device]);
    });
  }
  await use(disks.map((disk) => disk.found.devicePath));
}

/** LVM would refuse it only when it is a physical volume already. */
function refuseUnlike(poolName: string, { found, sectorBytes }: HeldDisk, wantedBytes: number): void {
  if (sectorBytes === wantedBytes) return;
  throw new FailedPrecondition(
    `pool ${poolName}: ${found.path} has logical blocks of ${sectorBytes} bytes, and other disks of its volume group of ${wantedBytes}: LVM does not mix them.`,
  );
}

/** Skips a disk, whatever its problem: the pool has its other disks. */
function passOver(
  { options: { log, poolName, queue } }: Pick<Parts, 'options'>,
  path: string,
  error: unknown,
): undefined {
  if (queue.closedFor !== undefined) throw error;
  log.warn({ pool: poolName, disk: path, reason: explain(error) }, 'a disk is not added to the volume group');
}

/** For example, by two names. */
function refuseTwice(poolName: string, found: readonly FoundDisk[]): void {
  for (const [index, { device, path }] of found.entries()) {
    const other = found.slice(0, index).find((each) => sameDevice(each.device, device));
    if (other === undefined) continue;
    throw new FailedPrecondition(`pool ${poolName}: ${other.path} and ${path} are one disk. Name it once.`);
  }
}
