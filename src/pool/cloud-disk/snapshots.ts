import { DataLoss, FailedPrecondition, NotFound } from '../../volume/errors.ts';
import { parseSnapshotId, type SnapshotId } from '../../volume/id.ts';
import { parseSnapshot, type SnapshotRecord, serializeSnapshot } from '../../volume/snapshot-record.ts';
import { step } from '../../volume/step.ts';
import { compact } from '../../volume/stored-json.ts';
import type { Clone, ReadRecords, Recorded, SnapshotDraft } from '../backend.ts';
import { readInto } from '../indexes/record-index.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import { type CloudSnapshot, Polling, shortId } from './cloud.ts';
import type { PoolDisks } from './disks.ts';
import { readRecordLabels, recordLabels } from './record-labels.ts';

/** The snapshots of a pool. Clouds take no token for them: before one is taken, earlier tries are looked for. */
export class PoolSnapshots {
  readonly #disks: PoolDisks;
  readonly #known = new Map<SnapshotId, CloudSnapshot>();
  readonly #deleted = new Set<string>();
  /** Before that, a try that was cut short may have taken one that is not shown yet. */
  readonly #uncertainUntilMs = new Map<SnapshotId, number>();
  readonly #openedMs = performance.now();

  constructor(disks: PoolDisks) {
    this.#disks = disks;
  }

  async readAll(): Promise<ReadRecords<SnapshotId, SnapshotRecord>> {
    const { cloud, names, poolId } = this.#disks.place;
    const all = new Map<SnapshotId, CloudSnapshot[]>();
    for (const shown of await cloud.snapshots({ [names.pool]: poolId })) {
      const id = parseSnapshotId(shown.labels[names.snapshot] ?? '');
      const isOurs = shown.labels[names.pool] === poolId && !this.#isGoing(shown);
      if (id !== undefined && isOurs) all.set(id, [...(all.get(id) ?? []), shown]);
    }
    const read: ReadRecords<SnapshotId, SnapshotRecord> = { records: [], damaged: [] };
    for (const [id, snapshots] of all) this.#readInto(read, id, snapshots);
    return read;
  }

  async read(id: SnapshotId): Promise<ReadRecords<SnapshotId, SnapshotRecord>> {
    const read: ReadRecords<SnapshotId, SnapshotRecord> = { records: [], damaged: [] };
    this.#readInto(read, id, await this.#find(id));
    return read;
  }

  /** @throws NotFound, FailedPrecondition if the cloud has not finished it */
  async requireReady(id: SnapshotId): Promise<CloudSnapshot> {
    const { cloud } = this.#disks.place;
    const [snapshot] = await this.#find(id);
    if (snapshot === undefined) throw new NotFound(`snapshot ${id}: ${cloud.name} shows none.`);
    if (snapshot.state === 'ready') return snapshot;
    throw new FailedPrecondition(
      `snapshot ${id} (${shortId(snapshot.id)}) is not ready: ${cloud.name} is still copying it, or could not. Try again.`,
    );
  }

  /** Answers if volumes can be made from it. */
  async isReady(id: SnapshotId): Promise<boolean> {
    if (this.#known.get(id)?.state === 'ready') return true;
    return (await this.#find(id))[0]?.state === 'ready';
  }

  draft(id: SnapshotId): SnapshotDraft {
    return new CloudSnapshotDraft(this, id);
  }

  async take(record: SnapshotRecord): Promise<void> {
    const { cloud, names, poolId } = this.#disks.place;
    const { id, sourceId } = record;
    if ((await this.#findCertainly(id)).length > 0) return;
    const source = await this.#disks.require(sourceId);
    const labels = {
      [names.pool]: poolId,
      [names.snapshot]: id,
      ...recordLabels(names.record, compact(serializeSnapshot(record))),
    };
    this.#doubt(id);
    const taken = await step('cloud/snapshot', () => cloud.createSnapshot(source.id, labels));
    this.#known.set(id, taken);
  }

  /** All of that id: a try whose answer was lost may have taken a second one. */
  async delete(id: SnapshotId): Promise<void> {
    const { cloud } = this.#disks.place;
    for (const snapshot of await this.#findCertainly(id)) {
      await step('cloud/delete', () => cloud.deleteSnapshot(snapshot.id));
      this.#deleted.add(snapshot.id);
    }
    this.#known.delete(id);
    this.#uncertainUntilMs.delete(id);
  }

  #doubt(id: SnapshotId): void {
    this.#uncertainUntilMs.set(id, performance.now() + this.#disks.place.pace.settleMs);
  }

  async #findCertainly(id: SnapshotId): Promise<CloudSnapshot[]> {
    const { pace } = this.#disks.place;
    const untilMs = Math.max(this.#openedMs + pace.settleMs, this.#uncertainUntilMs.get(id) ?? 0);
    const polling = new Polling(pace);
    for (;;) {
      const found = await this.#find(id);
      if (found.length > 0 || performance.now() >= untilMs) return found;
      await polling.pause();
    }
  }

  /** The oldest first. */
  async #find(id: SnapshotId): Promise<CloudSnapshot[]> {
    const { cloud, names, pace, poolId } = this.#disks.place;
    const shown = await cloud.snapshots({ [names.pool]: poolId, [names.snapshot]: id });
    const found = shown.filter(
      (each) => !this.#isGoing(each) && each.labels[names.pool] === poolId && each.labels[names.snapshot] === id,
    );
    const known = this.#known.get(id);
    const isYoung = known !== undefined && Date.now() - known.createdMs < pace.settleMs;
    if (isYoung && found.every((each) => each.id !== known.id)) found.push(known);
    const sorted = found.sort((a, b) => a.createdMs - b.createdMs);
    if (sorted[0] !== undefined) this.#known.set(id, sorted[0]);
    return sorted;
  }

  #isGoing({ id, state }: CloudSnapshot): boolean {
    return state === 'going' || this.#deleted.has(id);
  }

  #readInto(read: ReadRecords<SnapshotId, SnapshotRecord>, id: SnapshotId, [snapshot]: readonly CloudSnapshot[]): void {
    if (snapshot === undefined) return;
    const { names, poolName } = this.#disks.place;
    const where = `of snapshot ${id} in the labels of ${shortId(snapshot.id)} (pool ${poolName})`;
    readInto(read, id, () => {
      const text = readRecordLabels(names.record, snapshot.labels);
      if (text === undefined) throw new DataLoss(`The record ${where} cannot be read: labels are missing.`);
      const record = parseSnapshot(text, where);
      if (record.id !== id) throw new DataLoss(`The record ${where} is of ${record.id}.`);
      if (snapshot.state === 'failed')
        throw new DataLoss(
          `${shortId(snapshot.id)} of snapshot ${id} could not be finished: delete its VolumeSnapshot, and make another one.`,
        );
      this.#known.set(id, snapshot);
      return record;
    });
  }
}

/** A snapshot on its way: the one call that takes it gives it its record, too. */
class CloudSnapshotDraft implements SnapshotDraft {
  readonly #id: SnapshotId;
  readonly #snapshots: PoolSnapshots;
  #record: SnapshotRecord | undefined;

  constructor(snapshots: PoolSnapshots, id: SnapshotId) {
    this.#snapshots = snapshots;
    this.#id = id;
  }

  async begin(): Promise<void> {}

  clone(_source: Recorded): Clone {
    return { complete: async () => undefined };
  }

  async takenBytes(): Promise<bigint> {
    return 0n;
  }

  async complete(record: SnapshotRecord): Promise<void> {
    this.#record = record;
  }

  async commit(): Promise<void> {
    if (this.#record === undefined) throw new FailedPrecondition(`snapshot ${this.#id} has no record yet.`);
    await this.#snapshots.take(this.#record);
  }

  /** If it was taken without an answer, the next try finds it. */
  async discard(): Promise<TrashRef | undefined> {
    return undefined;
  }
}
