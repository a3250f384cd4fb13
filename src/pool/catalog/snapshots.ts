import { storedBytes } from '../../volume/encryption.ts';
import { AlreadyExists, FailedPrecondition, InternalError, NotFound } from '../../volume/errors.ts';
import { finishAll, finishAllOrStop } from '../../volume/flow/finish-all.ts';
import { type GroupId, memberIdFor, type SnapshotId } from '../../volume/id.ts';
import { defaultLayout } from '../../volume/layout.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { larger } from '../../volume/size.ts';
import type { GroupRecord, SnapshotRecord } from '../../volume/snapshot-record.ts';
import { step } from '../../volume/step.ts';
import type { Backend, SnapshotDraft } from '../backend.ts';
import { frozen } from '../events.ts';
import type { Cut, FreezeTarget } from '../freeze/freezer.ts';
import type { GroupSpec, SnapshotSpec } from '../pool.ts';
import type { SpaceRequest } from '../space/space-holds.ts';
import { noClones, refuseCopyInUse } from './clones.ts';
import { freezeTarget, isAtRest } from './freeze-target.ts';
import type { CatalogParts } from './parts.ts';
import { destroyUnreadable } from './unreadable.ts';

/** A snapshot on its way: what it is of, and where it is being made. */
interface Taking {
  readonly spec: SnapshotSpec;
  readonly source: VolumeRecord;
  readonly target: FreezeTarget;
  readonly draft: SnapshotDraft;
}

/** Snapshots, and groups of them that were taken at one instant. */
export class Snapshots {
  readonly #parts: CatalogParts;

  constructor(parts: CatalogParts) {
    this.#parts = parts;
  }

  /**
   * Made where they are not visible, taken at one instant, committed when whole. Members of a group are not visible until the
   * group's own record is there: writing that is the step at which all of them become true.
   */
  async take(specs: readonly SnapshotSpec[], group: GroupSpec | undefined): Promise<SnapshotRecord[]> {
    const { backend, name, snapshotIndex, space } = this.#parts;
    const { kind, snapshotDraft } = backend;
    if (snapshotDraft === undefined) throw new FailedPrecondition(noClones(this.#parts));
    if (group !== undefined && backend.traits.hasNoGroups === true) {
      throw new FailedPrecondition(`pool ${name} (${kind}) takes no snapshots of several volumes at one instant.`);
    }
    const takings = await Promise.all(specs.map((spec) => this.#begin(spec, snapshotDraft)));
    if (takings.length > 1) refuseUnfreezable(takings);
    using held = await space.hold(await this.#neededSpace(takings));
    let isGroupBegun = false;
    try {
      const records = await this.#make(takings, group);
      if (backend.space.sharesBlocks) await held.confirm();
      await this.#commit(takings);
      if (group !== undefined) {
        isGroupBegun = true;
        await this.#commitGroup(group, records);
      }
      for (const record of records) snapshotIndex.put(record);
      return records;
    } catch (error) {
      await this.#undo(takings, isGroupBegun ? group : undefined);
      throw error;
    }
  }

  /**
   * Members stay if their group's record is on the disk, or may be: without them it could neither be used nor made again.
   * @param group undefined: none, or nothing was written of it
   */
  async #undo(takings: readonly Taking[], group: GroupSpec | undefined): Promise<void> {
    const { snapshotIndex, trash, unsettled } = this.#parts;
    if (group !== undefined) await unsettled.recheck([group.id]);
    const isGroupTaken = group !== undefined && (unsettled.has(group.id) || snapshotIndex.groups.has(group.id));
    if (!isGroupTaken) for (const { draft } of takings) trash.destroy(await draft.discard().catch(() => undefined));
    await unsettled.recheck(takings.map(({ spec }) => spec.id));
  }

  /** A clone takes nothing yet, but its source will have to write its blocks again; a copy takes all of them at once. */
  async #neededSpace(takings: readonly Taking[]): Promise<SpaceRequest> {
    if (this.#parts.backend.space.sharesBlocks) {
      return { newBytes: 0n, sourceIds: takings.map(({ source }) => source.id) };
    }
    const { space } = this.#parts.backend;
    const copies = takings.map(async ({ draft, source }) => {
      const wholeBytes =
        space.layouts?.neededBytes(storedBytes(source), defaultLayout) ?? (await space.allocatedBytes(source.id));
      // A resumed copy needs no space for the part that an earlier try has copied.
      return larger(0n, wholeBytes - (await draft.takenBytes()));
    });
    return { newBytes: (await Promise.all(copies)).reduce((sum, bytes) => sum + bytes, 0n) };
  }

  /** @param isNoted the node has noted that it is deleted */
  async remove(id: SnapshotId, isNoted: boolean): Promise<void> {
    // A copy that was on its way is not wanted any more.
    await this.#discardCopies(new Set([id]));
    if (this.#parts.snapshotIndex.get(id) !== undefined) {
      if (!isNoted) await this.#parts.generations.forget(id);
      return await this.#discard([id]);
    }
    await this.#parts.backend.provisioner.removeUnknown?.(id);
  }

  /**
   * Without its record the group is gone; its members, that exist only with it, follow. Also those that a first try did
   * not come to (GR17).
   */
  async removeGroup(id: GroupId): Promise<void> {
    const { backend, index, snapshotIndex, unsettled } = this.#parts;
    if (snapshotIndex.groups.get(id) !== undefined) {
      await unsettled.change([id], () => step('group/remove', () => backend.records.removeGroup(id)));
      snapshotIndex.groups.delete(id);
    }
    await this.#discard([...snapshotIndex.all()].filter(({ groupId }) => groupId === id).map((member) => member.id));
    // No record tells of a group that was never taken, but the names of its members follow from its own.
    await this.#discardCopies(new Set(Array.from(index.all(), (volume) => memberIdFor(id, volume.id))));
  }

  async #discardCopies(ids: ReadonlySet<SnapshotId>): Promise<void> {
    const { backend, trash } = this.#parts;
    if (backend.traits.snapshots !== 'copy') return;
    for (const ref of await backend.provisioner.discardDrafts(ids)) trash.destroy(ref);
  }

  /** Members whose group was never committed, or is being removed: they are not visible. */
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
    const { backend, snapshotIndex, unsettled } = this.#parts;
    for (const id of ids) {
      const record = snapshotIndex.get(id);
      const ref = await unsettled.change([id], () =>
        step('snapshot/remove', () => backend.provisioner.removeSnapshot(id)),
      );
      snapshotIndex.delete(id);
      await destroyUnreadable(this.#parts, ref, { id, encryption: record?.encryption });
    }
  }

  async #begin(spec: SnapshotSpec, draft: NonNullable<Backend['snapshotDraft']>): Promise<Taking> {
    const { backend, generations, index, name, snapshotIndex } = this.#parts;
    if (snapshotIndex.get(spec.id) !== undefined) throw new AlreadyExists(`snapshot ${spec.id} exists already.`);
    await generations.refuseMoved(spec.id);
    const source = index.get(spec.sourceId);
    if (source === undefined) throw new NotFound(`There is no volume ${spec.sourceId} in pool ${name}.`);
    await backend.provisioner.verify({ kind: 'volume', record: source });
    if (backend.traits.snapshots === 'copy') await refuseCopyInUse(this.#parts, spec.sourceId);
    const target = await freezeTarget(this.#parts, source);
    return { spec, source, target, draft: draft(spec.id) };
  }

  async #make(takings: readonly Taking[], group: GroupSpec | undefined): Promise<SnapshotRecord[]> {
    const { freezer, log, name } = this.#parts;
    for (const { draft } of takings) await step('snapshot/directory', () => draft.begin());
    const targets = takings.map(({ target }) => target);
    const { result: createdAt, frozenMs } = await freezer.whileFrozen(targets, cutOf(takings));
    if (frozenMs > 0) frozen.publish({ pool: name, ms: frozenMs });
    for (const { source } of takings) {
      log.info({ volume_id: source.id, frozen_ms: Math.round(frozenMs * 10) / 10 }, 'took a snapshot');
    }
    return finishAll(
      takings.map(async ({ draft, source, spec }) => {
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
          ...(source.encryption === undefined ? {} : { encryption: source.encryption }),
        };
        await step('snapshot/record', () => draft.complete(record));
        return record;
      }),
    );
  }

  async #commit(takings: readonly Taking[]): Promise<void> {
    // An earlier one of that name may have been deleted.
    for (const { spec } of takings) await this.#parts.generations.forget(spec.id);
    await step('snapshot/commit', () => finishAll(takings.map(({ draft }) => draft.commit())));
  }

  async #commitGroup(group: GroupSpec, members: readonly SnapshotRecord[]): Promise<void> {
    const { backend, snapshotIndex } = this.#parts;
    const [first] = members;
    if (first === undefined) throw new InternalError(`group ${group.id} has no members.`);
    const record: GroupRecord = { ...group, createdAt: first.createdAt, memberIds: members.map(({ id }) => id) };
    await step('group/commit', () => backend.records.writeGroup(record));
    snapshotIndex.groups.put(record);
  }
}

/** Clones all volumes; its result is the time of that. */
function cutOf(takings: readonly Taking[]): Cut<string> {
  const clones = takings.map(({ draft, source, target }) => ({
    clone: draft.clone({ kind: 'volume', record: source }),
    isAtRest: isAtRest(target),
  }));
  return {
    async ahead() {
      await finishAllOrStop(clones, undefined, ({ clone }, signal) =>
        step('snapshot/ahead', async () => clone.goAhead?.(signal)),
      );
    },
    async work(late) {
      const createdAt = new Date().toISOString();
      await finishAllOrStop(clones, late, ({ clone, isAtRest: atRest }, signal) =>
        step('snapshot/take', () => clone.complete({ isAtRest: atRest, signal })),
      );
      return createdAt;
    },
  };
}

/** Several volumes at one instant: each must be mounted here, where it can be frozen, or not be in use at all. */
function refuseUnfreezable(takings: readonly Taking[]): void {
  for (const { source, target } of takings) {
    if (source.content.type === 'block' && target.devices.length > 0) {
      throw new FailedPrecondition(
        `volume ${source.id} is a raw block volume in use: it has no filesystem to freeze, so it cannot be taken at one instant with others. Snapshot it alone, or stop its pod first.`,
      );
    }
  }
}
