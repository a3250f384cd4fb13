import {
  type DeviceMapper,
  forgetMappedNode,
  type MappedOver,
  mappedDevice,
} from '../../../../kernel/block/device-mapper.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../../kernel/call/errno.ts';
import { FailedPrecondition, ResourceExhausted } from '../../../../volume/errors.ts';
import { SharedRun } from '../../../../volume/flow/shared-run.ts';
import type { Layout } from '../../../../volume/layout.ts';
import type { Autoactivation } from '../commands/arguments.ts';
import * as arguments_ from '../commands/arguments.ts';
import { failureOf } from '../commands/failure.ts';
import { lockGroup } from '../commands/group-lock.ts';
import { isLvmError, type Lvm } from '../commands/lvm.ts';
import { activateAllArguments } from '../commands/thin-arguments.ts';
import { disksOfLegs, type LvPlan, neededBytes, planOf, wholeBytes } from '../layout.ts';
import { idOfLvName, isOwnName, lvNameOfMapped, mappedName } from '../names.ts';
import { changeOf, isOwnTag, moveDocument, stateOf, type TagChange, tagsOfDocument } from '../tags.ts';
import type { AskedDisk } from './ask-disks.ts';
import { isFamilyTag } from './families.ts';
import { type GroupState, groupStateOf, type OwnLv } from './group-state.ts';
import { KnownGroup } from './known-group.ts';
import { findSuspended, resumeLeft } from './suspended.ts';
import {
  explainLvm,
  goneByHand,
  incompleteGroup,
  missingGroup,
  noMetadata,
  noRoomFor,
  otherGroup,
  refuseCopies,
} from './trouble.ts';

/** A logical volume before it is made. */
export interface NewOwnLv {
  readonly sizeBytes: bigint;
  readonly layout: Layout;
  readonly tags: readonly string[];
}

/**
 * The volume group of a pool, and its operations. Only changes by others in the group have to be asked for. Each change is
 * one commit of the group's metadata.
 */
export class VolumeGroup extends KnownGroup {
  readonly #lvm: Lvm;
  #readAtMs = performance.now();
  readonly #reading = new SharedRun(() => this.#read());
  /** The last change of tags of each logical volume that has one under way. */
  readonly #edits = new Map<string, Promise<void>>();
  /** Devices that this driver has suspended just now, by their names in device-mapper: `resume` leaves them alone. */
  readonly suspending = new Set<string>();
  /** Called before volumes become inactive, and report nothing any more. */
  beforeDeactivation: (lvNames: readonly string[]) => Promise<void> = async () => undefined;

  constructor(poolName: string, lvm: Lvm, mapper: DeviceMapper, state: GroupState) {
    super(poolName, mapper, state);
    this.#lvm = lvm;
    lvm.whenKilled = async (queue) => {
      await this.resumeLeft(queue);
    };
    this.#lookAtOwnDisks();
  }

  /** Takes its device away without LVM, which would read its disks. One that is open stays. */
  async removeDevice(queue: DiskQueue, lvName: string): Promise<void> {
    const name = mappedName(this.name, lvName);
    await this.mapper.removeUnused(queue, name);
    if (this.deviceOf(lvName) === undefined) await forgetMappedNode(queue, name, `${this.name}/${lvName}`);
  }

  /**
   * Resumes the pool's devices that a killed LVM or driver has left suspended: reads and writes of the volumes may wait
   * for that. Devices of others in the group are theirs to resume; and while an LVM is running in it, it has suspended
   * what it changes.
   * @returns the names of the devices
   */
  async resumeLeft(queue: DiskQueue): Promise<string[]> {
    if ((await this.#findLeft(queue)).length === 0) return [];
    await using lock = await lockGroup(queue, this.#lvm.runner, this.name);
    if (lock === undefined) return [];
    const left = await this.#findLeft(queue);
    await resumeLeft(queue, this.mapper, left);
    return left.map(({ name }) => name);
  }

  async #findLeft(queue: DiskQueue): Promise<MappedOver[]> {
    const suspended = await findSuspended(queue, this.mapper, this.state.uuid);
    return suspended.filter(
      ({ name }) => isOwnName(lvNameOfMapped(this.name, name) ?? '') && !this.suspending.has(name),
    );
  }

  /** Asks LVM. Callers that wait share one answer: what LVM said before a call proves nothing for it. @param maximumAgeMs the age of an answer that will do */
  refresh(maximumAgeMs = 0): Promise<void> {
    if (maximumAgeMs > 0 && performance.now() - this.#readAtMs < maximumAgeMs) return Promise.resolve();
    return this.#reading.run();
  }

  /**
   * Makes the state that a dead driver or machine has left durable, and the same on all disks, before it is reported.
   * @returns whether the disks differed, and whether they still do; false of a group with a disk missing
   */
  async settle(): Promise<{ readonly differed: boolean; readonly differ: boolean }> {
    await this.refresh();
    const { isDifferent, name } = this.state;
    // With a disk missing all others were looked at, of other groups too. And LVM would note the missing disks permanently, and
    // refuse them when they are back.
    const differed = isDifferent && !this.isIncomplete();
    if (differed) {
      await this.#lvm.change(arguments_.repairArguments(name)).catch(passOverLvmError);
      await this.refresh();
    }
    await this.flush();
    return { differed, differ: differed && this.state.isDifferent };
  }

  /** Disks of the group that are there. */
  disks(): AskedDisk[] {
    return this.present().flatMap(({ device, path }) => (device === undefined ? [] : [{ path, device }]));
  }

  /**
   * A volume that LVM does not name is really not there. @throws FailedPrecondition if it is another group by now, or a
   * disk is missing
   */
  async requireWhole(): Promise<void> {
    await this.refresh();
    if (this.isIncomplete()) throw incompleteGroup(this.poolName, this.name);
  }

  /** Makes the metadata that LVM has reported durable. */
  async flush(): Promise<void> {
    try {
      await this.#flush();
    } catch (error) {
      if (!isErrno(error, 'ENOENT')) throw error;
      // A disk that was taken out of the group, and away.
      await this.refresh();
      await this.#flush();
    }
  }

  /** There is metadata for one more volume. @throws ResourceExhausted */
  async requireMetadata(): Promise<void> {
    if (this.isMetadataLow()) await this.refresh();
    if (this.isMetadataLow()) throw noMetadata(this.poolName, this.name);
  }

  async create(lvName: string, { layout, sizeBytes, tags }: NewOwnLv): Promise<OwnLv> {
    await this.requireMetadata();
    const plan = await this.#planned(layout, sizeBytes, (plan) =>
      this.change(
        arguments_.createArguments({ vgName: this.name, lvName, plan, tags }),
        neededBytes(layout, sizeBytes, this.state),
      ),
    );
    const lv: OwnLv = {
      ...{ name: lvName, id: idOfLvName(lvName), layout, tags },
      state: stateOf(tags) ?? 'draft',
      stripes: plan.stripes,
      sizeBytes: plan.extents * this.state.extentBytes,
      syncPercent: layout === 'raid1' ? '0.00' : '',
      attributes: layout === 'raid1' ? 'rwi-a-r---' : '-wi-a-----',
    };
    this.put(lv);
    this.take(this.takenBytes(lv));
    return lv;
  }

  /** Replaces all tags of ours, but for what it shares blocks with, and the mark of a move. */
  retag(lvName: string, newTags: readonly string[], autoactivation?: Autoactivation): Promise<void> {
    return this.edit(lvName, () => newTags, autoactivation);
  }

  /** The same, by what the tags are when the change before has been made: of one logical volume they come one after another. */
  edit(
    lvName: string,
    newTagsOf: (tags: readonly string[]) => readonly string[],
    autoactivation?: Autoactivation,
  ): Promise<void> {
    const last = this.#edits.get(lvName) ?? Promise.resolve();
    const turn = last.then(() => this.#retag(lvName, newTagsOf, autoactivation));
    const settled = turn.catch(() => undefined);
    this.#edits.set(lvName, settled);
    void settled.then(() => {
      if (this.#edits.get(lvName) === settled) this.#edits.delete(lvName);
    });
    return turn;
  }

  async #retag(
    lvName: string,
    newTagsOf: (tags: readonly string[]) => readonly string[],
    autoactivation: Autoactivation | undefined,
  ): Promise<void> {
    const before = this.#require(lvName);
    const newTags = newTagsOf(before.tags);
    const marks = tagsOfDocument(moveDocument, before.tags);
    const keepsMark = tagsOfDocument(moveDocument, newTags).length === 0;
    const stays = (tag: string) => isFamilyTag(tag) || !isOwnTag(tag) || (keepsMark && marks.includes(tag));
    const tags = [...newTags, ...before.tags.filter((tag) => stays(tag) && !newTags.includes(tag))];
    const change = changeOf(before.tags, tags);
    if (change.add.length === 0 && change.remove.length === 0) return;
    const isActivatedAtBoot = before.layout === 'raid1' && before.state === 'draft';
    const atBoot = isActivatedAtBoot ? 'n' : autoactivation;
    await this.change(arguments_.retagArguments(this.name, lvName, change, atBoot), 0n);
    this.put({ ...(this.get(lvName) ?? before), tags, state: stateOf(tags) ?? before.state });
  }

  /** Takes away our tags, and leaves the data as it is. */
  async disown(lvName: string): Promise<void> {
    const remove = this.#require(lvName).tags;
    await this.change(arguments_.retagArguments(this.name, lvName, { add: [], remove }), 0n);
    this.forget(lvName);
  }

  /** Changes the tags of a foreign logical volume. */
  async tagOther(lvName: string, change: TagChange): Promise<void> {
    await this.change(arguments_.retagArguments(this.name, lvName, change), 0n);
    await this.refresh();
  }

  /** A foreign volume may become ours by that, and the other way round. */
  async rename(lvName: string, newName: string): Promise<void> {
    await this.change(arguments_.renameArguments(this.name, lvName, newName), 0n);
    await this.refresh();
  }

  async extend(lvName: string, sizeBytes: bigint): Promise<void> {
    const before = this.#require(lvName);
    const { extentBytes } = this.state;
    const size = wholeBytes(sizeBytes, before, extentBytes);
    if (size <= before.sizeBytes) return this.#matchDevice(before);
    const grown = { ...before, sizeBytes: size };
    const newBytes = this.takenBytes(grown) - this.takenBytes(before);
    const devicePaths = before.layout === 'raid1' ? await this.#disksOfLegs(lvName) : [];
    const extents = size / extentBytes;
    try {
      await this.change(arguments_.extendArguments(this.name, lvName, { devicePaths, extents }), newBytes);
    } catch (error) {
      // It was made that large by hand, which is known by now.
      if (isLvmError(error) && failureOf(error) === 'not-larger') return this.#matchDevice(this.#require(lvName));
      throw error;
    }
    this.put({ ...(this.get(lvName) ?? grown), sizeBytes: size });
    this.take(newBytes);
  }

  async activate(queue: DiskQueue, lvName: string): Promise<void> {
    const activate = () => this.#tell(arguments_.activateArguments(this.name, lvName), 0n);
    try {
      await activate();
    } catch (error) {
      if (!isLvmError(error) || failureOf(error) !== 'half-active') throw error;
      await this.removeParts(queue, lvName);
      await activate();
    }
  }

  /** True if LVM was killed while it made this mirror: its metadata volumes can be seen until it is whole. */
  isHalfMade(lvName: string): boolean {
    return this.other(`${lvName}_rmeta_0`) !== undefined;
  }

  /** Removes the parts that a killed command has left of a mirror or a thin pool: LVM does not resume it. Parts in use stay. */
  async removeParts(queue: DiskQueue, lvName: string): Promise<void> {
    for (const part of partNames) await this.removeDevice(queue, lvName + part);
  }

  /** Activates those that can be. */
  async activateAll(lvNames: readonly string[]): Promise<void> {
    await this.#lvm.change(activateAllArguments(this.name, lvNames)).catch(passOverLvmError);
  }

  /** @returns false if one of them is open */
  async deactivate(lvNames: readonly string[]): Promise<boolean> {
    await this.beforeDeactivation(lvNames);
    try {
      await this.#lvm.change(arguments_.deactivateArguments(this.name, lvNames));
      return true;
    } catch (error) {
      if (isLvmError(error) && failureOf(error) === 'in-use') return false;
      throw this.#explain(error, 0n);
    }
  }

  /** Gone is fine. */
  async remove(lvName: string): Promise<void> {
    await this.#requireDisks();
    try {
      await this.#lvm.change(arguments_.removeArguments(this.name, lvName));
    } catch (error) {
      if (!isLvmError(error) || failureOf(error) !== 'no-volume') throw await this.#whyFailed(error, 0n);
    }
    await this.flush();
    const before = this.forget(lvName);
    if (before?.state === 'thin') await this.refresh();
    else if (before !== undefined) this.take(-this.takenBytes(before));
  }

  /** A change of the group's metadata; durable at its end. The caller puts what it has made or changed into the state. */
  async change(args: readonly string[], neededBytes: bigint): Promise<void> {
    await this.#tell(args, neededBytes);
    await this.flush();
  }

  /**
   * LVM removes also while a disk is missing. But then it notes that one as missing permanently, and refuses it when it
   * is back.
   * @throws FailedPrecondition
   */
  async #requireDisks(): Promise<void> {
    // Finds out if one of them has gone.
    await this.flush();
    if (this.isIncomplete()) await this.refresh();
    if (this.isIncomplete()) throw incompleteGroup(this.poolName, this.name);
  }

  /**
   * Makes a volume by a plan from the known state. Where that is out of date, and LVM refuses or there is no room, LVM
   * is asked first.
   */
  async #planned(layout: Layout, sizeBytes: bigint, make: (plan: LvPlan) => Promise<void>): Promise<LvPlan> {
    const plan = planOf(layout, sizeBytes, this.state);
    try {
      if (plan !== undefined) {
        await make(plan);
        return plan;
      }
      await this.refresh();
    } catch (error) {
      if (layout === 'linear' || !(error instanceof ResourceExhausted)) throw error;
    }
    const next = planOf(layout, sizeBytes, this.state);
    if (next === undefined) throw noRoomFor(layout, sizeBytes, { poolName: this.poolName, state: this.state });
    await make(next);
    return next;
  }

  /** The disks of both legs, so that neither comes to lie on the disk of the other. */
  async #disksOfLegs(lvName: string): Promise<string[]> {
    const rows = await this.#lvm.rows(arguments_.legsArguments(this.name, lvName));
    const paths = disksOfLegs(rows.map((row) => ({ name: row['lv_name'] ?? '', devices: row['devices'] ?? '' })));
    if (paths !== undefined) return paths;
    throw new FailedPrecondition(
      `pool ${this.poolName}: the legs of logical volume ${this.name}/${lvName} do not lie on one disk each (see lvs -a -o +devices): make it larger by hand.`,
    );
  }

  async #read(): Promise<void> {
    const beganMs = performance.now();
    const state = await this.#ask();
    this.know(state);
    this.#readAtMs = beganMs;
    this.#lookAtOwnDisks();
  }

  /** If not all of its disks are where they were, they are looked for everywhere. */
  async #ask(): Promise<GroupState> {
    const told = await this.#lvm.report(this.name).then(
      (report) => groupStateOf(report, this.name),
      (error) => {
        if (isLvmError(error) && failureOf(error) === 'no-group') return undefined;
        throw error;
      },
    );
    if (told !== undefined) this.#requireSame(told);
    if (told !== undefined && !told.physicalVolumes.some(({ isMissing }) => isMissing)) return told;
    this.#lvm.lookOnlyAt(undefined);
    try {
      const state = groupStateOf(await this.#lvm.report(this.name), this.name);
      if (state === undefined) throw missingGroup(this.poolName, this.name);
      this.#requireSame(state);
      refuseCopies(this.poolName, state);
      return state;
    } catch (error) {
      // The next change is made in the group of these disks, or nowhere: another group may have the name.
      this.#lookAtOwnDisks();
      throw error;
    }
  }

  /** Another group may have the name by now: of a node's disk that was plugged in, or made after a `vgrename`. */
  #requireSame({ uuid }: GroupState): void {
    if (uuid !== this.state.uuid) throw otherGroup(this.poolName, this.name);
  }

  #lookAtOwnDisks(): void {
    this.#lvm.lookOnlyAt(this.present().map(({ path }) => path));
  }

  #flush(): Promise<void> {
    return this.#lvm.flush(this.present().flatMap(({ device }) => device ?? []));
  }

  #require(lvName: string): OwnLv {
    const lv = this.get(lvName);
    if (lv === undefined) throw goneByHand(this.poolName, this.name, lvName);
    return lv;
  }

  /** A killed LVM may have noted a size that the kernel does not have yet. */
  async #matchDevice({ name, sizeBytes }: OwnLv): Promise<void> {
    const device = this.deviceOf(name)?.device;
    const mapped = device && mappedDevice(device);
    if (mapped === undefined || mapped.sizeBytes >= sizeBytes) return;
    await this.#tell(arguments_.refreshArguments(this.name, name), 0n);
  }

  async #tell(args: readonly string[], neededBytes: bigint): Promise<void> {
    try {
      await this.#lvm.change(args);
    } catch (error) {
      throw await this.#whyFailed(error, neededBytes);
    }
  }

  /** Only LVM knows the outcome of a failed change, and whether the group is still the same. */
  async #whyFailed(error: unknown, neededBytes: bigint): Promise<unknown> {
    const trouble = await this.refresh().catch((reason: unknown) => reason);
    return trouble instanceof FailedPrecondition ? trouble : this.#explain(error, neededBytes);
  }

  #explain(error: unknown, neededBytes: bigint): unknown {
    return explainLvm(error, { poolName: this.poolName, vgName: this.name, neededBytes });
  }
}

/** The suffixes that LVM gives to the parts of a logical volume. */
const partNames = ['_rimage_0', '_rimage_1', '_rmeta_0', '_rmeta_1', '_tdata', '_tmeta'];

/** The command can be repeated later. */
function passOverLvmError(error: unknown): void {
  if (!isLvmError(error)) throw error;
}
