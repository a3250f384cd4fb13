import { setTimeout as delay } from 'node:timers/promises';
import type { VolumeId } from '../../volume/id.ts';
import type { LabelForm } from './record-labels.ts';

/** making: its creation goes on. failed: the cloud gave it up. going: it is deleted, and may still be shown. */
export type CloudState = 'making' | 'ready' | 'failed' | 'going';

/** The names and values that a cloud keeps with a disk: tags of AWS, labels of Google. */
export type CloudLabels = Readonly<Record<string, string>>;

/** A disk at a machine of the cloud. */
export interface CloudAttachment {
  readonly instance: string;
  readonly state: 'attaching' | 'attached' | 'detaching';
  /** The start of the attachment by the cloud's clock; undefined: it does not say. */
  readonly sinceMs?: number | undefined;
}

/** A disk as the cloud shows it. What it shows may be seconds old. */
export interface CloudDisk {
  /** The cloud's own id: `vol-0123456789abcdef0`. */
  readonly id: string;
  readonly state: CloudState;
  readonly sizeBytes: bigint;
  readonly zone: string;
  readonly createdMs: number;
  readonly labels: CloudLabels;
  readonly attachments: readonly CloudAttachment[];
}

export interface CloudSnapshot {
  readonly id: string;
  readonly state: CloudState;
  readonly createdMs: number;
  readonly labels: CloudLabels;
}

/** A disk to be made. */
export interface NewDisk {
  /** The cloud makes only one disk for a volume, however often it is asked. */
  readonly volumeId: VolumeId;
  /** Shown in the cloud's console. */
  readonly name: string;
  readonly sizeBytes: bigint;
  readonly zone: string;
  readonly labels: CloudLabels;
  /** The parameters of the class; `checkParameters` has seen them. */
  readonly parameters: Readonly<Record<string, string>>;
  /** The cloud's id of the snapshot to start from; undefined: blank. */
  readonly snapshotId: string | undefined;
}

/**
 * A cloud that has disks, attaches them to its machines and takes snapshots: the interface that a kind of cloud implements.
 * Its methods ask once and do not wait for the cloud to be done, unless they say so. Each can be called again after an
 * error, and after a crash of this process.
 */
export interface Cloud {
  /** For messages: `AWS`. */
  readonly name: string;
  /** Asked twice for one volume, it makes a second disk if the zone is another one. */
  readonly isBlindToOtherZones: boolean;
  /** The unit in which disks are sold. */
  readonly granularityBytes: bigint;
  /** True if a text can be the cloud's id of a disk. */
  isDiskId(text: string): boolean;

  /** The disks with these labels. */
  disks(labels: CloudLabels): Promise<CloudDisk[]>;
  /** undefined: the cloud shows none. */
  disk(id: string): Promise<CloudDisk | undefined>;
  /** @throws InvalidArgument for parameters that the cloud cannot fulfil */
  checkParameters(parameters: Readonly<Record<string, string>>, sizeBytes: bigint): void;
  /** Returns once the cloud shows it. @throws HoldfastError; Unavailable if the disk may exist anyway */
  createDisk(disk: NewDisk): Promise<CloudDisk>;
  /** Gone is fine. @throws FailedPrecondition if it is attached */
  deleteDisk(id: string): Promise<void>;
  /** Adds labels, or replaces their values: all of them or none. */
  label(id: string, labels: CloudLabels): Promise<void>;
  /** Returns once the disk has the new size. @throws Unavailable if that takes longer, or has to wait */
  growDisk(disk: CloudDisk, sizeBytes: bigint): Promise<void>;

  /** @returns an id that no other machine ever has @throws NotFound if the cloud has no such machine */
  requireInstance(instance: string): Promise<string>;
  /**
   * @returns false: an attachment of before has to end first, and then it must be asked again
   * @throws ResourceExhausted if the machine has no place for it, FailedPrecondition if another one has it
   */
  attach(disk: CloudDisk, instance: string): Promise<boolean>;
  /** For clouds that show no end of an attachment: true if one at this machine may be ending, which shows as attached until then. */
  isEnding?(id: string, instance: string): Promise<boolean>;
  /**
   * For clouds whose devices have names that people can choose: true if the disk has the one by which its machine finds it; false
   * while the cloud does not show that.
   * @throws FailedPrecondition if it has another one
   */
  isFindable?(id: string, instance: string): Promise<boolean>;
  /** Not attached is fine, and the cloud's own word, not what it last showed, says so. */
  detach(id: string, instance: string): Promise<void>;

  snapshots(labels: CloudLabels): Promise<CloudSnapshot[]>;
  createSnapshot(diskId: string, labels: CloudLabels): Promise<CloudSnapshot>;
  /** Gone is fine. */
  deleteSnapshot(id: string): Promise<void>;
  close(): void;
}

/** An id in messages: those of some clouds are long paths. */
export function shortId(id: string): string {
  return id.slice(id.lastIndexOf('/') + 1);
}

/** The times of a cloud. Tests have others. */
export interface CloudPace {
  /** The longest pause between two looks at something that goes on. */
  readonly pollMs: number;
  /** A call waits this long for the cloud; its caller tries again. */
  readonly waitMs: number;
  /** The cloud may show for this long how things were before this process changed them. */
  readonly settleMs: number;
  /** A disk of this age is shown: one that is not shown is gone. */
  readonly bornMs: number;
  /** An attachment that is not done by then is ended, and tried again. */
  readonly stuckMs: number;
}

/** Pauses between looks, short ones first: most of what a cloud does takes no second. */
export class Polling {
  readonly #longestMs: number;
  #nextMs: number;

  constructor({ pollMs }: Pick<CloudPace, 'pollMs'>) {
    this.#longestMs = pollMs;
    this.#nextMs = pollMs / 8;
  }

  async pause(): Promise<void> {
    await delay(this.#nextMs);
    this.#nextMs = Math.min(this.#longestMs, this.#nextMs * 2);
  }
}

export const usualPace: CloudPace = {
  pollMs: 1_000,
  waitMs: 60_000,
  settleMs: 30_000,
  bornMs: 300_000,
  stuckMs: 300_000,
};

/** The names of the labels that a pool's disks and snapshots have. */
export interface LabelNames {
  readonly pool: string;
  readonly volume: string;
  readonly snapshot: string;
  /** The time of creation in a record: the request to make a disk must be the same each time, so it comes later. */
  readonly created: string;
  /** The first machine that the volume was published to, or `used` once it has left that. */
  readonly fresh: string;
  /** The names and the form of the pieces of records. */
  readonly record: LabelForm;
}
