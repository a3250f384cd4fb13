import { FailedPrecondition, InternalError, InvalidArgument, NotFound, Unavailable } from '../../volume/errors.ts';
import { isVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { step } from '../../volume/step.ts';
import type { Clone, DraftOptions, Provisioner, Recorded, Removed, VolumeDraft } from '../backend.ts';
import { abnormal } from '../condition.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import type { Condition } from '../pool.ts';
import type { PoolDisks } from './disks.ts';
import { createdLabel, labelsOfVolume } from './record-store.ts';
import type { PoolSnapshots } from './snapshots.ts';

export interface CloudParts {
  readonly disks: PoolDisks;
  readonly snapshots: PoolSnapshots;
  /** For volumes that come without a zone. */
  readonly defaultZone: string | undefined;
}

/** Has a cloud make and delete disks. One call makes a disk with its record: there are no drafts. */
export class CloudProvisioner implements Provisioner {
  readonly #parts: CloudParts;

  constructor(parts: CloudParts) {
    this.#parts = parts;
  }

  draft(id: VolumeId, options: DraftOptions): VolumeDraft {
    return new CloudDraft(this.#parts, id, options.zone ?? this.#parts.defaultZone);
  }

  async discardDrafts(): Promise<TrashRef[]> {
    return [];
  }

  async leftDrafts(): Promise<TrashRef[]> {
    return [];
  }

  async verify({ kind, record }: Recorded): Promise<void> {
    if (kind === 'volume') await this.#parts.disks.require(record.id);
    else await this.#parts.snapshots.requireReady(record.id);
  }

  async conditionOf({ id }: VolumeRecord): Promise<Condition | undefined> {
    const { disks } = this.#parts;
    await disks.refresh();
    const state = disks.lastSeen(id)?.state;
    if (state !== 'failed' && state !== 'going') return undefined;
    const what = state === 'failed' ? 'has failed' : 'is gone';
    return abnormal(`${disks.place.cloud.name} says that the disk of this volume ${what}.`);
  }

  /** Larger than its record if a process died before it could write that. Less than a piece of the cloud more is no growth. */
  async sizeOf(id: VolumeId): Promise<bigint | undefined> {
    return this.#parts.disks.grownSizeOf(id);
  }

  async grow(record: VolumeRecord): Promise<void> {
    await this.#parts.disks.grow(record.id, record.sizeBytes);
  }

  async removeVolume(id: VolumeId): Promise<Removed> {
    await this.#parts.disks.delete(id);
    return { ref: id, isKept: false };
  }

  async removeSnapshot(id: SnapshotId): Promise<TrashRef> {
    await this.#parts.snapshots.delete(id);
    return id;
  }

  async removeUnknown(id: VolumeId | SnapshotId): Promise<void> {
    if (isVolumeId(id)) await this.#parts.disks.delete(id);
    else await this.#parts.snapshots.delete(id);
  }

  /** It is gone already. */
  async destroy(): Promise<void> {}

  async restore(): Promise<void> {
    throw noTrash();
  }

  async mark(): Promise<void> {
    throw noTrash();
  }
}

function noTrash(): InternalError {
  return new InternalError('disks of a cloud have no trash.');
}

class CloudDraft implements VolumeDraft {
  readonly #id: VolumeId;
  readonly #parts: CloudParts;
  readonly #zone: string | undefined;
  #record: VolumeRecord | undefined;
  #source: SnapshotId | undefined;

  constructor(parts: CloudParts, id: VolumeId, zone: string | undefined) {
    this.#parts = parts;
    this.#id = id;
    this.#zone = zone;
  }

  async check({ parameters, sizeBytes, undeleteSeconds = 0 }: VolumeRecord): Promise<void> {
    const { cloud, poolName } = this.#parts.disks.place;
    if (undeleteSeconds > 0) {
      throw new InvalidArgument(`pool ${poolName} keeps no deleted volumes: leave undelete out of the class.`);
    }
    cloud.checkParameters(parameters, this.#parts.disks.roundUp(sizeBytes));
  }

  async begin(): Promise<void> {}

  clone({ kind, record }: Recorded): Clone {
    const { cloud } = this.#parts.disks.place;
    if (kind === 'volume') {
      throw new InvalidArgument(
        `${cloud.name} makes no copies of volumes here: take a snapshot of ${record.id}, and make a volume of that.`,
      );
    }
    this.#source = record.id;
    return { complete: async () => undefined };
  }

  async takenBytes(): Promise<bigint> {
    return 0n;
  }

  async make(record: VolumeRecord): Promise<void> {
    this.#record = record;
  }

  async complete(record: VolumeRecord): Promise<void> {
    this.#record = record;
  }

  async commit(): Promise<void> {
    const { disks, snapshots } = this.#parts;
    const record = this.#record;
    if (record === undefined || this.#zone === undefined) {
      throw new FailedPrecondition(`volume ${this.#id}: it has no zone.`);
    }
    const snapshotId = this.#source === undefined ? undefined : (await snapshots.requireReady(this.#source)).id;
    await disks.create({
      volumeId: this.#id,
      name: record.name,
      sizeBytes: disks.roundUp(record.sizeBytes),
      zone: this.#zone,
      labels: labelsOfVolume(disks.place, record),
      parameters: record.parameters,
      snapshotId,
    });
    await step('create/record', () => disks.label(this.#id, createdLabel(disks.place.names, record))).catch((error) => {
      // It was made a moment ago, and a part of the cloud does not know it yet. NOT_FOUND would end the tries for it.
      throw error instanceof NotFound ? new Unavailable(`${error.message} Try again.`) : error;
    });
  }

  /** If it was made without an answer, the next try finds it. */
  async discard(): Promise<TrashRef | undefined> {
    return undefined;
  }
}
