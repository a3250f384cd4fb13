import { mkdir, readdir, rename, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { syncFile } from '../../kernel/file/file.ts';
import { AlreadyExists, FailedPrecondition, InternalError, NotFound } from '../../volume/errors.ts';
import { finishAll, finishAllOrStop } from '../../volume/finish-all.ts';
import { type GroupId, memberIdFor, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { larger } from '../../volume/size.ts';
import {
  type GroupRecord,
  type SnapshotRecord,
  serializeGroup,
  serializeSnapshot,
} from '../../volume/snapshot-record.ts';
import { step } from '../../volume/step.ts';
import { frozen } from '../events.ts';
import { freezeTarget, isAtRest } from '../freeze/freeze-target.ts';
import type { Cut, FreezeTarget } from '../freeze/freezer.ts';
import { requireWhole } from '../kinds/image/image-file.ts';
import type { GroupSpec, SnapshotSpec } from '../pool.ts';
import { replaceFile, writeNewFile } from '../records/durable-file.ts';
import { unlessGone } from '../records/gone.ts';
import { allocatedBytesOf } from '../space/filesystem-space.ts';
import type { SpaceRequest } from '../space/space-holds.ts';
import type { ImageParts } from './parts.ts';

/** A snapshot on its way: what it is of, and where it is being made. */
interface Draft {
  readonly spec: SnapshotSpec;
  readonly source: VolumeRecord;
  readonly target: FreezeTarget;
  readonly directory: string;
  /** What lies in the snapshot's place is what was made here, and not what somebody has put back there by hand. */
  isInPlace: boolean;
}

/** Snapshots as clones of images. */
export class ImageSnapshots {
  readonly #parts: ImageParts;

  constructor(parts: ImageParts) {
    this.#parts = parts;
  }

  /**
   * Made in tmp/, cut at one instant, renamed into place when whole. Members of a group are there for nobody until the
   * group's own record is: writing that is the step at which all of them become true.
   */
  async cut(specs: readonly SnapshotSpec[], group: GroupSpec | undefined): Promise<SnapshotRecord[]> {
    const { space } = this.#parts;
    const drafts = await Promise.all(specs.map((spec) => this.#draft(spec)));
    if (drafts.length > 1) refuseUnfreezable(drafts);
    using held = await space.hold(await this.#neededSpace(drafts));
    try {
      const records = await this.#make(drafts, group);
      if (this.#parts.maker.cloning === 'reflink') await held.confirm();
      await this.#commit(drafts, records, group);
      return records;
    } catch (error) {
      await this.#undo(drafts, group);
      throw error;
    }
  }

  /** Members stay if their group's record is on the disk, or may be: without them it could neither be used nor made anew. */
  async #undo(drafts: readonly Draft[], group: GroupSpec | undefined): Promise<void> {
    const { layout, maker, snapshotIndex, trash, unsettled } = this.#parts;
    if (group !== undefined) await unsettled.recheck([group.id]);
    const isCut = group !== undefined && (unsettled.has(group.id) || snapshotIndex.hasGroup(group.id));
    for (const { directory, isInPlace, spec } of drafts) {
      // A copy is kept: the retry goes on with it.
      if (maker.cloning === 'reflink') trash.purge(directory);
      // Under another name: what is queued is unlinked later, when the retry's snapshot may have this one.
      if (isInPlace && !isCut)
        await trash.discard(layout.snapshot(spec.id), layout.newTrash(spec.id)).catch(() => undefined);
    }
    await unsettled.recheck(drafts.map(({ spec }) => spec.id));
  }

  /** A clone takes nothing yet, but its source will have to write anew what it has written; a copy takes all of it at once. */
  async #neededSpace(drafts: readonly Draft[]): Promise<SpaceRequest> {
    const { queue, layout, maker } = this.#parts;
    if (maker.cloning === 'reflink') return { newBytes: 0n, sourceIds: drafts.map(({ source }) => source.id) };
    const copies = drafts.map(async ({ directory, source }) => {
      const wholeBytes = await allocatedBytesOf(queue, layout.data(source.id));
      // What a try that was cut short has copied it need not ask for again.
      return larger(0n, wholeBytes - (await allocatedBytesOf(queue, join(directory, 'data'))));
    });
    return { newBytes: (await Promise.all(copies)).reduce((sum, bytes) => sum + bytes, 0n) };
  }

  async remove(id: SnapshotId): Promise<void> {
    const { layout, maker, snapshotIndex, trash } = this.#parts;
    // A copy that was on its way is not wanted any more.
    if (maker.cloning === 'copy') await trash.discard(layout.copyDraft(id), layout.newTrash(id));
    if (snapshotIndex.get(id) === undefined) return;
    await this.#discard([id]);
  }

  /**
   * Without its record the group is gone; its members, that exist only with it, follow. Also those that a first try did
   * not come to (GR17).
   */
  async removeGroup(id: GroupId): Promise<void> {
    const { queue, layout, snapshotIndex, syncs, unsettled } = this.#parts;
    if (snapshotIndex.getGroup(id) !== undefined) {
      await unsettled.change([id], () =>
        step('group/remove', async () => {
          await queue.run(() => unlink(layout.group(id))).catch(ignoreMissing);
          await syncs.sync(queue, layout.groups);
        }),
      );
      snapshotIndex.deleteGroup(id);
    }
    await this.#discard([...snapshotIndex.all()].filter(({ groupId }) => groupId === id).map((member) => member.id));
    await this.#discardCopies(id);
  }

  /** Copies of a group that was never cut: no record tells of them, but their names follow from the group's. */
  async #discardCopies(id: GroupId): Promise<void> {
    const { index, queue, layout, maker, trash } = this.#parts;
    if (maker.cloning !== 'copy') return;
    const names = new Set(await queue.run(() => readdir(layout.drafts)));
    for (const volume of index.all()) {
      const memberId = memberIdFor(id, volume.id);
      const draft = layout.copyDraft(memberId);
      if (names.has(basename(draft))) await trash.discard(draft, layout.newTrash(memberId));
    }
  }

  /** Members whose group was never committed, or is being removed: they exist for nobody. */
  async removeIncomplete(): Promise<SnapshotId[]> {
    const { snapshotIndex } = this.#parts;
    const ids = [...snapshotIndex.all()].filter((record) => !snapshotIndex.hasItsGroup(record)).map(({ id }) => id);
    await this.#discard(ids);
    return ids;
  }

  /**
   * Groups without a member: earlier drivers could leave one, when the sync of its record failed. It holds nothing, and
   * its name could not be used again.
   */
  async removeMemberless(): Promise<GroupId[]> {
    const ids = this.#parts.snapshotIndex.memberless().map(({ id }) => id);
    for (const id of ids) await this.removeGroup(id);
    return ids;
  }

  async #discard(ids: readonly SnapshotId[]): Promise<void> {
    const { reserve, queue, layout, snapshotIndex, syncs, trash, unsettled } = this.#parts;
    for (const id of ids) {
      const trashed = layout.newTrash(id);
      await unsettled.change([id], () =>
        step('snapshot/remove', async () => {
          // Removed by hand: what remains to be done is to forget it.
          const path = layout.snapshot(id);
          await unlessGone(queue, path, () => reserve.withReserve(queue, () => queue.run(() => rename(path, trashed))));
          await finishAll([syncs.sync(queue, layout.snapshots), syncs.sync(queue, layout.trash)]);
        }),
      );
      snapshotIndex.delete(id);
      trash.purge(trashed);
    }
  }

  async #draft(spec: SnapshotSpec): Promise<Draft> {
    const { devices, index, queue, layout, maker, name, snapshotIndex } = this.#parts;
    if (snapshotIndex.get(spec.id) !== undefined) throw new AlreadyExists(`snapshot ${spec.id} exists already.`);
    const source = index.get(spec.sourceId);
    if (source === undefined) throw new NotFound(`There is no volume ${spec.sourceId} in pool ${name}.`);
    await requireWhole(queue, layout.image(source));
    if (maker.cloning === 'copy' && (await devices.holder(spec.sourceId)) !== undefined) {
      throw copyInUse(spec.sourceId, name);
    }
    const target = await freezeTarget(this.#parts, source);
    const directory = maker.cloning === 'copy' ? layout.copyDraft(spec.id) : layout.newDraft(spec.id);
    return { spec, source, target, directory, isInPlace: false };
  }

  async #make(drafts: readonly Draft[], group: GroupSpec | undefined): Promise<SnapshotRecord[]> {
    const { freezer, queue, log, name, syncs } = this.#parts;
    for (const { directory } of drafts) {
      await step('snapshot/directory', () => queue.run(() => mkdir(directory, { mode: 0o700, recursive: true })));
    }
    const targets = drafts.map(({ target }) => target);
    const { result: createdAt, frozenMs } = await freezer.whileFrozen(targets, this.#cutOf(drafts));
    if (frozenMs > 0) frozen.publish({ pool: name, ms: frozenMs });
    for (const { source } of drafts) {
      log.info({ volume_id: source.id, frozen_ms: Math.round(frozenMs * 10) / 10 }, 'cut a snapshot');
    }
    return finishAll(
      drafts.map(async ({ spec, source, directory }) => {
        const record: SnapshotRecord = {
          id: spec.id,
          name: spec.name,
          sourceId: source.id,
          sizeBytes: source.sizeBytes,
          content: source.content,
          blockSizeBytes: source.blockSizeBytes,
          parameters: spec.parameters,
          createdAt,
          ...(group === undefined ? {} : { groupId: group.id }),
        };
        await step('snapshot/record', async () => {
          await syncFile(queue, join(directory, 'data'));
          const path = join(directory, 'snapshot.json');
          await queue.run(() => unlink(path)).catch(ignoreMissing);
          await writeNewFile(queue, path, serializeSnapshot(record));
          await syncs.sync(queue, directory);
        });
        return record;
      }),
    );
  }

  /** How all images are cloned; its result is when that was. */
  #cutOf(drafts: readonly Draft[]): Cut<string> {
    const { layout, maker } = this.#parts;
    const clones = drafts.map(({ directory, source, target }) => ({
      clone: maker.clone({ ...source, path: layout.data(source.id) }, join(directory, 'data')),
      isAtRest: isAtRest(target),
    }));
    return {
      async ahead() {
        await finishAllOrStop(clones, undefined, ({ clone }, signal) =>
          step('snapshot/ahead', () => clone.goAhead(signal)),
        );
      },
      async work(late) {
        const createdAt = new Date().toISOString();
        await finishAllOrStop(clones, late, ({ clone, isAtRest }, signal) =>
          step('snapshot/take', () => clone.complete({ isAtRest, signal })),
        );
        return createdAt;
      },
    };
  }

  async #commit(
    drafts: readonly Draft[],
    records: readonly SnapshotRecord[],
    group: GroupSpec | undefined,
  ): Promise<void> {
    const { queue, layout, snapshotIndex, syncs } = this.#parts;
    await step('snapshot/commit', async () => {
      for (const draft of drafts) {
        await queue.run(() => rename(draft.directory, layout.snapshot(draft.spec.id)));
        draft.isInPlace = true;
      }
      await syncs.sync(queue, layout.snapshots);
    });
    if (group !== undefined) {
      const [first] = records;
      if (first === undefined) throw new InternalError(`group ${group.id} has no members.`);
      const groupRecord: GroupRecord = { ...group, createdAt: first.createdAt, memberIds: records.map(({ id }) => id) };
      await step('group/commit', () => replaceFile(queue, syncs, layout.group(group.id), serializeGroup(groupRecord)));
      snapshotIndex.putGroup(groupRecord);
    }
    for (const record of records) snapshotIndex.put(record);
  }
}

/** Why a volume in use cannot be snapshotted or cloned in this pool, and what to do. */
export function copyInUse(id: VolumeId, poolName: string): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id} is in use, and pool ${poolName} cannot share blocks (reflink): it can be copied only at rest. Stop its pod for that time, or put the pool on XFS or btrfs.`,
  );
}

/** Several volumes at one instant: each must be mounted here, where it can be frozen, or not be in use at all. */
function refuseUnfreezable(drafts: readonly Draft[]): void {
  for (const { source, target } of drafts) {
    if (source.content.type === 'block' && target.devices.length > 0) {
      throw new FailedPrecondition(
        `volume ${source.id} is a raw block volume in use: it has no filesystem to freeze, so it cannot be cut at one instant with others. Snapshot it alone, or stop its pod first.`,
      );
    }
  }
}
