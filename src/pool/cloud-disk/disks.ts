import { DataLoss, FailedPrecondition, HoldfastError, NotFound, Unavailable } from '../../volume/errors.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { VolumeId } from '../../volume/id.ts';
import { step } from '../../volume/step.ts';
import {
  type Cloud,
  type CloudDisk,
  type CloudLabels,
  type CloudPace,
  type LabelNames,
  type NewDisk,
  Polling,
  shortId,
} from './cloud.ts';
import { recordIn } from './record-store.ts';

export interface CloudPlace {
  readonly cloud: Cloud;
  readonly names: LabelNames;
  /** The pool's id, which its disks have as a label. */
  readonly poolId: string;
  /** For messages. */
  readonly poolName: string;
  readonly pace: CloudPace;
}

/** Less than the time after which a disk is called silent. */
const refreshMs = 2_000;

interface Known {
  disk: CloudDisk;
  /** Labels that this process has written, and that the cloud may not show yet. */
  written: { readonly labels: CloudLabels; readonly atMs: number } | undefined;
}

/** The disks of a pool. A cloud shows changes late, so those of this process are remembered for a while. */
export class PoolDisks {
  readonly place: CloudPlace;
  readonly #known = new Map<VolumeId, Known>();
  /** The cloud's ids of disks that this process has deleted: they may still be shown. */
  readonly #deleted = new Set<string>();
  readonly #openedMs = performance.now();
  #freshUntilMs = 0;
  #refreshing: Promise<void> | undefined;

  constructor(place: CloudPlace) {
    this.place = place;
  }

  /** All of them, by the ids of their volumes. Of one id there may be several, which is a mistake that a person must look at. */
  async readAll(): Promise<Map<VolumeId, CloudDisk[]>> {
    const { cloud, names, poolId } = this.place;
    const found = new Map<VolumeId, CloudDisk[]>();
    for (const shown of await cloud.disks({ [names.pool]: poolId })) {
      const id = shown.labels[names.volume] as VolumeId | undefined;
      const disk = id === undefined || !this.#isOurs(id, shown) ? undefined : this.#note(id, shown);
      if (id !== undefined && disk !== undefined) found.set(id, [...(found.get(id) ?? []), disk]);
    }
    return found;
  }

  /** Reads all disks again, if the last time is long ago. A cloud that is slow or away changes nothing. */
  async refresh(): Promise<void> {
    if (performance.now() < this.#freshUntilMs) return;
    this.#refreshing ??= this.#readAgain().finally(() => {
      this.#refreshing = undefined;
      this.#freshUntilMs = performance.now() + this.place.pace.settleMs;
    });
    await withTimeout(refreshMs, this.#refreshing);
  }

  async #readAgain(): Promise<void> {
    try {
      const found = await this.readAll();
      for (const id of this.#known.keys()) if (!found.has(id)) await this.find(id);
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
    }
  }

  /** The disk as it was last seen: the cloud is not asked. */
  lastSeen(id: VolumeId): CloudDisk | undefined {
    return this.#known.get(id)?.disk;
  }

  /** The disk as the cloud shows it now; undefined: none that is not being deleted. */
  async find(id: VolumeId): Promise<CloudDisk | undefined> {
    const known = this.#known.get(id);
    if (known === undefined) return (await this.#labelled(id))[0];
    const shown = await this.place.cloud.disk(known.disk.id);
    if (shown !== undefined) return this.#isOurs(id, shown) ? this.#note(id, shown) : undefined;
    // A new one is not shown at once.
    if (this.#isYoung(known.disk)) return known.disk;
    // Its record stays known until it is deleted, and so do its id and its zone.
    known.disk = { ...known.disk, state: 'going' };
    return undefined;
  }

  /** @throws NotFound */
  async require(id: VolumeId): Promise<CloudDisk> {
    const disk = await this.find(id);
    if (disk !== undefined) return disk;
    throw new NotFound(`volume ${id}: ${this.place.cloud.name} shows no disk of it (pool ${this.place.poolName}).`);
  }

  /** Makes the volume's disk, or finds the one that an earlier try has made, and waits until it can be used. */
  async create(request: NewDisk): Promise<CloudDisk> {
    const { cloud } = this.place;
    const { volumeId } = request;
    const [earlier] = cloud.isBlindToOtherZones
      ? await this.#untilCertain(() => this.#labelled(volumeId))
      : await this.#labelled(volumeId);
    if (earlier !== undefined) this.#requireSame(earlier, request);
    const made = earlier ?? (await step('cloud/create', () => cloud.createDisk(request)));
    this.#known.set(volumeId, { disk: made, written: { labels: made.labels, atMs: performance.now() } });
    // Without that label no claim ever had it.
    const isNew = earlier === undefined && made.labels[this.place.names.created] === undefined;
    const disk = await this.#ready(volumeId, made, isNew);
    this.#requireSame(disk, request);
    return disk;
  }

  /** Deletes all disks of the volume. Gone is fine. */
  async delete(id: VolumeId): Promise<void> {
    const found = await this.#toDelete(id);
    for (const disk of found) await this.#deleteDisk(disk.id);
    this.#known.delete(id);
  }

  async #deleteDisk(diskId: string): Promise<void> {
    await step('cloud/delete', () => this.place.cloud.deleteDisk(diskId));
    this.#deleted.add(diskId);
  }

  /**
   * The value of a label, which a process before this one may have written; undefined: there is none.
   * @param last the value that it keeps for ever
   */
  async labelOf(id: VolumeId, name: string, last: string): Promise<string | undefined> {
    const seen = this.lastSeen(id)?.labels[name];
    if (seen === last || this.#isCertain()) return seen;
    await this.#untilCertain(async () => ((await this.require(id)).labels[name] === last ? [last] : []));
    return this.lastSeen(id)?.labels[name];
  }

  async label(id: VolumeId, labels: CloudLabels): Promise<void> {
    const { id: diskId } = await this.require(id);
    await step('cloud/label', () => this.place.cloud.label(diskId, labels));
    const known = this.#known.get(id);
    if (known === undefined) return;
    const before = known.written?.labels ?? {};
    known.written = { labels: { ...before, ...labels }, atMs: performance.now() };
    known.disk = { ...known.disk, labels: { ...known.disk.labels, ...labels } };
  }

  async grow(id: VolumeId, sizeBytes: bigint): Promise<void> {
    const disk = await this.require(id);
    const whole = this.roundUp(sizeBytes);
    if (disk.sizeBytes >= whole) return;
    await step('cloud/grow', () => this.place.cloud.growDisk(disk, whole));
    const known = this.#known.get(id);
    if (known !== undefined) known.disk = { ...known.disk, sizeBytes: whole };
  }

  /** The size of a disk that has grown without its record; undefined: it has not. */
  grownSizeOf(id: VolumeId): bigint | undefined {
    const disk = this.#known.get(id)?.disk;
    if (disk === undefined) return undefined;
    try {
      const { sizeBytes } = recordIn(this.place, id, disk);
      return disk.sizeBytes > this.roundUp(sizeBytes) ? disk.sizeBytes : undefined;
    } catch (error) {
      // A damaged record is reported elsewhere.
      if (error instanceof DataLoss) return undefined;
      throw error;
    }
  }

  /** The size that the cloud sells for this one. */
  roundUp(sizeBytes: bigint): bigint {
    const { granularityBytes } = this.place.cloud;
    return ((sizeBytes + granularityBytes - 1n) / granularityBytes) * granularityBytes;
  }

  async #ready(id: VolumeId, made: CloudDisk, isNew: boolean): Promise<CloudDisk> {
    const { cloud, pace } = this.place;
    const endMs = performance.now() + pace.waitMs;
    let disk: CloudDisk | undefined = made;
    let lastShownMs = performance.now();
    const polling = new Polling(pace);
    for (;;) {
      if (disk?.state === 'ready') return disk;
      // One that was there before may have held data.
      if (disk?.state === 'failed' && !isNew) {
        throw new FailedPrecondition(
          `volume ${id}: ${cloud.name} says that ${shortId(made.id)} has failed: look at it there, and delete it by hand if nothing on it is needed.`,
        );
      }
      if (disk?.state === 'failed') {
        await this.#deleteDisk(made.id);
        this.#known.delete(id);
        throw new Unavailable(
          `volume ${id}: ${cloud.name} could not make ${shortId(made.id)}; the rest of it was deleted.`,
        );
      }
      // A cloud takes away without a word a disk whose key it may not use. One look may be older than the look before it.
      if (disk === undefined && performance.now() - lastShownMs >= pace.settleMs) {
        await this.#deleteDisk(made.id);
        this.#known.delete(id);
        throw new FailedPrecondition(
          `volume ${id}: ${cloud.name} began to make ${shortId(made.id)}, and took it away: may this driver use the encryption key of its class?`,
        );
      }
      if (performance.now() >= endMs) {
        throw new Unavailable(`volume ${id}: ${cloud.name} is still making ${shortId(made.id)}; try again.`);
      }
      await polling.pause();
      const shown = await cloud.disk(made.id);
      if (shown !== undefined) lastShownMs = performance.now();
      disk = shown === undefined ? undefined : this.#note(id, shown);
    }
  }

  /** @throws FailedPrecondition if it is another disk than the one that is asked for */
  #requireSame({ id, labels, sizeBytes, zone }: CloudDisk, request: NewDisk): void {
    const { cloud, names } = this.place;
    const has = (name: string) => labels[name] === request.labels[name];
    const isSame =
      sizeBytes >= request.sizeBytes &&
      Object.keys(request.labels).every((name) => !name.startsWith(names.record.prefix) || has(name));
    if (isSame && zone === request.zone) return;
    throw new FailedPrecondition(
      `volume ${request.volumeId}: ${cloud.name} has ${shortId(id)} for it already, from a try with other values (${sizeBytes} bytes in ${zone}): delete the claim and make it again, or delete that disk by hand if nothing uses it.`,
    );
  }

  /** The disks with the label of a volume, the oldest first. */
  async #labelled(id: VolumeId): Promise<CloudDisk[]> {
    const { cloud, names, poolId } = this.place;
    const shown = await cloud.disks({ [names.pool]: poolId, [names.volume]: id });
    const disks = shown.flatMap((disk) => (this.#isOurs(id, disk) ? (this.#note(id, disk) ?? []) : []));
    return disks.sort((a, b) => a.createdMs - b.createdMs);
  }

  /** Changes of a process before this one are shown by now. */
  #isCertain(): boolean {
    return performance.now() - this.#openedMs >= this.place.pace.settleMs;
  }

  /** Looks until something is found, or what a process before this one has changed is shown by now. */
  async #untilCertain<T>(look: () => Promise<readonly T[]>): Promise<readonly T[]> {
    const polling = new Polling(this.place.pace);
    for (;;) {
      const isCertain = this.#isCertain();
      const found = await look();
      if (found.length > 0 || isCertain) return found;
      await polling.pause();
    }
  }

  async #toDelete(id: VolumeId): Promise<readonly CloudDisk[]> {
    const { cloud } = this.place;
    return await this.#untilCertain(async () => {
      const found = await this.#labelled(id);
      const known = this.#known.get(id)?.disk;
      if (known === undefined || found.some((disk) => disk.id === known.id)) return found;
      const shown = await cloud.disk(known.id);
      if (shown === undefined) return this.#isYoung(known) ? [...found, known] : found;
      if (!this.#isOurs(id, shown)) throw this.#noLongerOurs(id, shown);
      return [...found, known];
    });
  }

  #noLongerOurs(id: VolumeId, { id: diskId }: CloudDisk): FailedPrecondition {
    const { cloud, names, poolId } = this.place;
    return new FailedPrecondition(
      `volume ${id}: ${cloud.name} shows ${shortId(diskId)} without the labels of this pool (${names.pool}: ${poolId}), so it is not deleted: put them back, or delete it by hand.`,
    );
  }

  /** Only disks with the pool's labels are ever deleted or changed. */
  #isOurs(id: VolumeId, { labels }: CloudDisk): boolean {
    const { names, poolId } = this.place;
    return labels[names.pool] === poolId && labels[names.volume] === id;
  }

  #isYoung({ createdMs }: CloudDisk): boolean {
    return Date.now() - createdMs < this.place.pace.settleMs;
  }

  /** @returns the disk as it must be by now; undefined: it is on its way out */
  #note(id: VolumeId, shown: CloudDisk): CloudDisk | undefined {
    if (shown.state === 'going' || this.#deleted.has(shown.id)) return undefined;
    const known = this.#known.get(id);
    if (known !== undefined && known.disk.id !== shown.id) return shown;
    const written = known?.written;
    const isSettled = written === undefined || performance.now() - written.atMs >= this.place.pace.settleMs;
    const disk = isSettled ? shown : { ...shown, labels: { ...shown.labels, ...written.labels } };
    this.#known.set(id, { disk, written: isSettled ? undefined : written });
    return disk;
  }
}
