import {
  type GroupId,
  parseGroupId,
  parseSnapshotId,
  parseVolumeId,
  type SnapshotId,
  type VolumeId,
} from '../../volume/id.ts';
import type { Backend } from '../backend.ts';
import type { SnapshotIndex } from '../indexes/snapshot-index.ts';
import type { CatalogParts } from './parts.ts';
import type { Trash } from './trash.ts';

type Id = VolumeId | SnapshotId | GroupId;

export interface UnsettledOptions {
  readonly backend: Pick<Backend, 'provisioner' | 'records'>;
  readonly index: CatalogParts['index'];
  readonly snapshotIndex: SnapshotIndex;
  readonly trash: Trash;
}

/**
 * Changes that failed half way, e.g. a commit whose sync failed: only the disk knows their outcome. So memory is made to
 * agree with it at once. And until a sync has succeeded nothing is reported of the object: the answer to a retry must be
 * durable.
 */
export class Unsettled {
  /** Called once memory has what the disk has of a snapshot, before anything is said of it. */
  onSnapshot: ((id: SnapshotId) => Promise<void>) | undefined;
  readonly #options: UnsettledOptions;
  readonly #ids = new Set<Id>();
  readonly #settling = new Map<Id, Promise<void>>();

  constructor(options: UnsettledOptions) {
    this.#options = options;
  }

  /** Does a change of these objects; the caller updates memory afterwards. */
  async change<T>(ids: readonly Id[], work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      await this.recheck(ids);
      throw error;
    }
  }

  /** After a change of these objects that failed. A group goes before its members. Never throws. */
  async recheck(ids: readonly Id[]): Promise<void> {
    for (const id of ids) this.#ids.add(id);
    for (const id of ids) await this.settle(id).catch(() => undefined);
  }

  /** Before anything is said of an object, or done with it. @throws what keeps it from being known, and durable */
  async settle(...ids: readonly Id[]): Promise<void> {
    for (const id of ids) if (this.#ids.has(id)) await this.#settleOnce(id);
  }

  /** True if its state is not known. */
  has(id: Id): boolean {
    return this.#ids.has(id);
  }

  /** Two callers at a time share one answer. */
  #settleOnce(id: Id): Promise<void> {
    const begun = this.#settling.get(id);
    if (begun !== undefined) return begun;
    const settling = this.#settle(id).finally(() => this.#settling.delete(id));
    this.#settling.set(id, settling);
    return settling;
  }

  async #settle(id: Id): Promise<void> {
    const { backend, index, snapshotIndex } = this.#options;
    const groupId = parseGroupId(id);
    const volumeId = parseVolumeId(id);
    const snapshotId = parseSnapshotId(id);
    if (groupId !== undefined) {
      snapshotIndex.groups.restate(groupId, (await backend.records.read(groupId)).groups);
      await backend.records.sync(groupId);
    }
    if (volumeId !== undefined) {
      index.restate(volumeId, (await backend.records.read(volumeId)).volumes);
      await this.#settleWithTrash(volumeId);
    }
    if (snapshotId !== undefined) {
      await this.#settleSnapshot(snapshotId);
      await this.onSnapshot?.(snapshotId);
      await this.#settleWithTrash(snapshotId);
    }
    this.#ids.delete(id);
  }

  async #settleSnapshot(id: SnapshotId): Promise<void> {
    const { backend, snapshotIndex, trash } = this.#options;
    const { snapshots } = await backend.records.read(id);
    const record = snapshots.records.find((each) => each.id === id);
    // The group of the record has to be known first.
    if (record?.groupId !== undefined) await this.settle(record.groupId);
    if (record === undefined || snapshotIndex.hasItsGroup(record)) snapshotIndex.restate(id, snapshots);
    else {
      trash.destroy(await backend.provisioner.removeSnapshot(id));
      snapshotIndex.delete(id);
    }
  }

  async #settleWithTrash(id: VolumeId | SnapshotId): Promise<void> {
    const { backend, trash } = this.#options;
    const unkept = await trash.reread(id);
    await backend.records.sync(id);
    for (const ref of unkept) trash.destroy(ref);
  }
}
