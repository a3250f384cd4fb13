import { createHash } from 'node:crypto';
import {
  FailedPrecondition,
  type HoldfastError,
  InvalidArgument,
  NotFound,
  ResourceExhausted,
  Unavailable,
} from '../../../../volume/errors.ts';
import { TurnsByKey } from '../../../../volume/flow/turns.ts';
import {
  type Cloud,
  type CloudAttachment,
  type CloudDisk,
  type CloudLabels,
  type CloudPace,
  type CloudSnapshot,
  type CloudState,
  type NewDisk,
  Polling,
} from '../../../cloud-disk/cloud.ts';
import { ebsDiskIds } from '../context.ts';
import { parseEbsParameters } from '../parameters.ts';
import { type Ec2Client, Ec2Refusal, type Ec2Values } from './client.ts';
import { DeviceNames } from './device-names.ts';
import { child, itemsIn, textOf, type XmlElement } from './xml.ts';

const gibibyte = 1n << 30n;

export interface Ec2CloudOptions {
  readonly client: Ec2Client;
  readonly pace: CloudPace;
  /** For all disks and snapshots, beside those of this driver. */
  readonly extraTags: Readonly<Record<string, string>>;
}

const maxTokens = 100;
const maxDeviceNames = 10;

/** EC2, as far as it has disks. */
export class Ec2Cloud implements Cloud {
  readonly name = 'AWS';
  readonly isBlindToOtherZones = false;
  readonly granularityBytes = gibibyte;
  readonly #options: Ec2CloudOptions;
  readonly #deviceNames: DeviceNames;
  /** One call at a time for a machine: each must see the names that the calls before it took. */
  readonly #machines = new TurnsByKey<string>();
  readonly #deleted = new Set<string>();
  /** By disk: its token leads to nothing once the disk is deleted. */
  readonly #tokens = new Map<string, string>();
  readonly #spentTokens = new Set<string>();
  /** Since when a token was refused for other values, and no disk of it was shown. */
  readonly #mismatchSinceMs = new Map<string, number>();

  constructor(options: Ec2CloudOptions) {
    this.#options = options;
    const { settleMs, stuckMs } = options.pace;
    this.#deviceNames = new DeviceNames(2 * stuckMs + settleMs);
  }

  isDiskId(text: string): boolean {
    return ebsDiskIds.pattern.test(text);
  }

  async disks(labels: CloudLabels): Promise<CloudDisk[]> {
    const found: CloudDisk[] = [];
    for await (const page of this.#client.pages('DescribeVolumes', tagFilters(labels))) {
      found.push(...itemsIn(page, 'volumeSet').map(readVolume));
    }
    return found;
  }

  async disk(id: string): Promise<CloudDisk | undefined> {
    try {
      const answer = await this.#client.call('DescribeVolumes', { 'VolumeId.1': id }, true);
      return itemsIn(answer, 'volumeSet').map(readVolume).at(0);
    } catch (error) {
      if (isRefusal(error, 'InvalidVolume.NotFound')) return undefined;
      throw error;
    }
  }

  checkParameters(parameters: Readonly<Record<string, string>>, sizeBytes: bigint): void {
    parseEbsParameters(parameters, sizeBytes);
  }

  /**
   * EC2 makes one disk for a token, and forgets a token hours after its disk is gone. So each token leads to a disk that
   * was deleted, or to the one that is wanted; the first of those is taken.
   */
  async createDisk(disk: NewDisk): Promise<CloudDisk> {
    for (let number = 0; number < maxTokens; number++) {
      const token = createHash('sha256')
        .update(`${disk.labels['holdfast.dev/pool']} ${disk.volumeId} ${number}`)
        .digest('hex');
      const made = this.#spentTokens.has(token) ? undefined : await this.#createWith(token, disk);
      if (made !== undefined) return made;
    }
    throw new Unavailable(`volume ${disk.volumeId} was made and deleted too often today: use another name.`);
  }

  async deleteDisk(id: string): Promise<void> {
    try {
      await this.#client.call('DeleteVolume', { VolumeId: id }, true);
    } catch (error) {
      if (isRefusal(error, 'VolumeInUse')) {
        throw new FailedPrecondition(`${id} is attached to a machine: unpublish its volume first.`);
      }
      if (!isRefusal(error, 'InvalidVolume.NotFound')) throw error;
    }
    this.#deleted.add(id);
    const token = this.#tokens.get(id);
    if (token !== undefined) this.#spentTokens.add(token);
  }

  async label(id: string, labels: CloudLabels): Promise<void> {
    const values: Ec2Values = { 'ResourceId.1': id, ...tagList('Tag', labels) };
    try {
      await this.#client.call('CreateTags', values, true);
    } catch (error) {
      if (isRefusal(error, 'InvalidVolume.NotFound', 'InvalidID')) throw new NotFound(`AWS has no ${id} to label.`);
      throw error;
    }
  }

  async growDisk({ id }: CloudDisk, sizeBytes: bigint): Promise<void> {
    const sizeGiB = sizeBytes / gibibyte;
    const { pace } = this.#options;
    const endMs = performance.now() + pace.waitMs;
    let isAsked = false;
    const polling = new Polling(pace);
    for (;;) {
      // One that was begun by a try before this goes on.
      const change = await this.#modification(id);
      const isThis = change !== undefined && BigInt(textOf(change, 'targetSize') || '0') >= sizeGiB;
      const state = change === undefined ? '' : textOf(change, 'modificationState');
      if (isThis && (state === 'optimizing' || state === 'completed')) return;
      const isUnderWay = state === 'modifying' || (state === 'optimizing' && !isThis);
      if (!isAsked && !isUnderWay) {
        isAsked = true;
        await this.#modify(id, sizeGiB);
      }
      if (performance.now() >= endMs) throw new Unavailable(`AWS is still changing ${id}; try again.`);
      await polling.pause();
    }
  }

  async requireInstance(instance: string): Promise<string> {
    try {
      if (!/^i-[0-9a-f]{8,17}$/.test(instance)) throw noInstance(instance);
      const answer = await this.#client.call('DescribeInstances', { 'InstanceId.1': instance }, true);
      const found = itemsIn(answer, 'reservationSet').flatMap((each) => itemsIn(each, 'instancesSet'));
      if (found.some((each) => textOf(each, 'instanceState', 'name') !== 'terminated')) return instance;
    } catch (error) {
      if (!isRefusal(error, 'InvalidInstanceID.NotFound', 'InvalidInstanceID.Malformed')) throw error;
    }
    throw noInstance(instance);
  }

  attach(disk: CloudDisk, instance: string): Promise<boolean> {
    return this.#machines.run(instance, async () => {
      for (let tries = 0; tries < maxDeviceNames; tries++) {
        const name = this.#deviceNames.choose(instance, await this.#namesAt(instance));
        if (name === undefined) break;
        this.#deviceNames.note(instance, name);
        const values = { VolumeId: disk.id, InstanceId: instance, Device: name };
        try {
          await this.#client.call('AttachVolume', values, false);
          return true;
        } catch (error) {
          if (isNameInUse(error)) continue;
          // An earlier call of this driver may have attached it: the caller looks.
          if (isRefusal(error, 'VolumeInUse')) return true;
          throw attachError(error, disk.id, instance);
        }
      }
      throw new ResourceExhausted(`${instance} has no free device name for ${disk.id}: detach another volume there.`);
    });
  }

  async detach(id: string, instance: string): Promise<void> {
    try {
      await this.#client.call('DetachVolume', { VolumeId: id, InstanceId: instance }, true);
    } catch (error) {
      const isDone = isRefusal(
        error,
        ...['IncorrectState', 'InvalidAttachment.NotFound', 'InvalidVolume.NotFound'],
        ...['InvalidInstanceID.NotFound', 'InvalidInstanceID.Malformed'],
      );
      if (!isDone) throw error;
    }
  }

  async snapshots(labels: CloudLabels): Promise<CloudSnapshot[]> {
    const found: CloudSnapshot[] = [];
    const values = { 'Owner.1': 'self', ...tagFilters(labels) };
    for await (const page of this.#client.pages('DescribeSnapshots', values)) {
      found.push(...itemsIn(page, 'snapshotSet').map(readSnapshot));
    }
    return found;
  }

  async createSnapshot(diskId: string, labels: CloudLabels): Promise<CloudSnapshot> {
    const values = {
      VolumeId: diskId,
      Description: `Holdfast: ${labels['holdfast.dev/snapshot'] ?? ''}`,
      'TagSpecification.1.ResourceType': 'snapshot',
      ...tagList('TagSpecification.1.Tag', { ...this.#options.extraTags, ...labels }),
    };
    try {
      const taken = readSnapshot(await this.#client.call('CreateSnapshot', values, false));
      // The answer of CreateSnapshot need not have them.
      return { ...taken, labels: { ...taken.labels, ...labels } };
    } catch (error) {
      if (isRefusal(error, 'SnapshotCreationPerVolumeRateExceeded')) {
        throw new Unavailable(`AWS takes a snapshot of ${diskId} only every 15 s; try again.`);
      }
      throw error;
    }
  }

  async deleteSnapshot(id: string): Promise<void> {
    try {
      await this.#client.call('DeleteSnapshot', { SnapshotId: id }, true);
    } catch (error) {
      if (isRefusal(error, 'InvalidSnapshot.InUse')) {
        throw new FailedPrecondition(`${id} is used by an image of a machine (AMI): deregister that first.`);
      }
      if (!isRefusal(error, 'InvalidSnapshot.NotFound')) throw error;
    }
  }

  close(): void {}

  get #client(): Ec2Client {
    return this.#options.client;
  }

  /** @returns undefined: the token is of a disk that was deleted */
  async #createWith(token: string, disk: NewDisk): Promise<CloudDisk | undefined> {
    const { extraTags } = this.#options;
    const tags = { Name: disk.name, ...extraTags, ...disk.labels };
    const values: Ec2Values = {
      ClientToken: token,
      AvailabilityZone: disk.zone,
      Size: `${disk.sizeBytes / gibibyte}`,
      SnapshotId: disk.snapshotId,
      ...parseEbsParameters(disk.parameters, disk.sizeBytes),
      'TagSpecification.1.ResourceType': 'volume',
      ...tagList('TagSpecification.1.Tag', tags),
    };
    const volume = await this.#askForDisk(token, disk, values);
    if (volume === undefined || this.#deleted.has(volume.id)) return undefined;
    this.#tokens.set(volume.id, token);
    return await this.#shown({ ...volume, labels: { ...volume.labels, ...disk.labels } });
  }

  /** @returns undefined: the token is of a disk that is gone */
  async #askForDisk(token: string, disk: NewDisk, values: Ec2Values): Promise<CloudDisk | undefined> {
    try {
      const made = readVolume(await this.#client.call('CreateVolume', values, true));
      this.#mismatchSinceMs.delete(token);
      return made;
    } catch (error) {
      if (!isRefusal(error, 'IdempotentParameterMismatch')) throw createError(error, disk);
    }
    // An earlier try had other values. Its disk is found by its labels, unless it was deleted.
    const sinceMs = this.#mismatchSinceMs.get(token) ?? performance.now();
    this.#mismatchSinceMs.set(token, sinceMs);
    if (performance.now() - sinceMs >= this.#options.pace.bornMs) return undefined;
    throw new Unavailable(
      `volume ${disk.volumeId} was being made with other values a moment ago, and AWS does not show that disk yet; try again.`,
    );
  }

  /** A token of a disk that was deleted is answered like one of a new disk, which is not shown at once either. */
  async #shown(made: CloudDisk): Promise<CloudDisk | undefined> {
    const { pace } = this.#options;
    const endMs = performance.now() + pace.settleMs;
    const polling = new Polling(pace);
    for (;;) {
      const shown = await this.disk(made.id);
      if (shown?.state === 'going') return undefined;
      if (shown !== undefined) return { ...shown, labels: { ...shown.labels, ...made.labels } };
      if (Date.now() - made.createdMs >= pace.bornMs) return undefined;
      if (performance.now() >= endMs) {
        throw new Unavailable(`AWS has made ${made.id}, and does not show it yet; try again.`);
      }
      await polling.pause();
    }
  }

  async #modification(id: string): Promise<XmlElement | undefined> {
    try {
      const answer = await this.#client.call('DescribeVolumesModifications', { 'VolumeId.1': id }, true);
      return itemsIn(answer, 'volumeModificationSet').at(-1);
    } catch (error) {
      // It was never changed.
      if (isRefusal(error, 'InvalidVolumeModification.NotFound')) return undefined;
      throw error;
    }
  }

  async #modify(id: string, sizeGiB: bigint): Promise<void> {
    try {
      await this.#client.call('ModifyVolume', { VolumeId: id, Size: `${sizeGiB}` }, true);
    } catch (error) {
      if (isRefusal(error, 'VolumeModificationRateExceeded', 'IncorrectModificationState')) {
        throw new Unavailable(
          `AWS changes a volume only some hours after its last change, and ${id} was changed a short while ago: it grows then.`,
        );
      }
      throw error;
    }
  }

  /** Both lists: one has the attached volumes, the other also those that are still attaching. */
  async #namesAt(instance: string): Promise<Set<string>> {
    const names = new Set<string>();
    const filter = { 'Filter.1.Name': 'attachment.instance-id', 'Filter.1.Value.1': instance };
    for await (const page of this.#client.pages('DescribeVolumes', filter)) {
      for (const volume of itemsIn(page, 'volumeSet')) {
        for (const each of itemsIn(volume, 'attachmentSet')) names.add(textOf(each, 'device'));
      }
    }
    const answer = await this.#client.call('DescribeInstances', { 'InstanceId.1': instance }, true).catch((error) => {
      throw attachError(error, 'a volume', instance);
    });
    for (const machine of itemsIn(answer, 'reservationSet').flatMap((each) => itemsIn(each, 'instancesSet'))) {
      for (const each of itemsIn(machine, 'blockDeviceMapping')) names.add(textOf(each, 'deviceName'));
    }
    return names;
  }
}

function tagFilters(labels: CloudLabels): Ec2Values {
  return Object.fromEntries(
    Object.entries(labels).flatMap(([name, value], index) => [
      [`Filter.${index + 1}.Name`, `tag:${name}`],
      [`Filter.${index + 1}.Value.1`, value],
    ]),
  );
}

function tagList(prefix: string, tags: Readonly<Record<string, string>>): Ec2Values {
  return Object.fromEntries(
    Object.entries(tags).flatMap(([key, value], index) => [
      [`${prefix}.${index + 1}.Key`, key],
      [`${prefix}.${index + 1}.Value`, value.slice(0, 256)],
    ]),
  );
}

function readTags(element: XmlElement): CloudLabels {
  return Object.fromEntries(itemsIn(element, 'tagSet').map((tag) => [textOf(tag, 'key'), textOf(tag, 'value')]));
}

const volumeStates: Readonly<Record<string, CloudState>> = {
  creating: 'making',
  available: 'ready',
  'in-use': 'ready',
  error: 'failed',
  deleting: 'going',
  deleted: 'going',
};

export function readVolume(volume: XmlElement): CloudDisk {
  return {
    id: textOf(volume, 'volumeId'),
    state: volumeStates[textOf(volume, 'status')] ?? 'making',
    sizeBytes: BigInt(textOf(volume, 'size') || '0') * gibibyte,
    zone: textOf(volume, 'availabilityZone'),
    createdMs: Date.parse(textOf(volume, 'createTime')) || 0,
    labels: readTags(volume),
    attachments: itemsIn(volume, 'attachmentSet').flatMap(readAttachment),
  };
}

function readAttachment(attachment: XmlElement): CloudAttachment[] {
  const status = textOf(attachment, 'status');
  if (status === 'detached') return [];
  // busy: it is detaching, and the machine has it mounted.
  const state = status === 'attached' || status === 'attaching' ? status : 'detaching';
  const sinceMs = Date.parse(textOf(attachment, 'attachTime'));
  return [{ instance: textOf(attachment, 'instanceId'), state, ...(Number.isNaN(sinceMs) ? {} : { sinceMs }) }];
}

function readSnapshot(snapshot: XmlElement): CloudSnapshot {
  const status = textOf(snapshot, 'status');
  return {
    id: textOf(snapshot, 'snapshotId'),
    state: status === 'completed' ? 'ready' : status === 'error' ? 'failed' : 'making',
    createdMs: Date.parse(textOf(snapshot, 'startTime')) || 0,
    labels: child(snapshot, 'tagSet') === undefined ? {} : readTags(snapshot),
  };
}

function isRefusal(error: unknown, ...codes: readonly string[]): error is Ec2Refusal {
  return error instanceof Ec2Refusal && codes.includes(error.errorCode);
}

function isNameInUse(error: unknown): boolean {
  return isRefusal(error, 'InvalidParameterValue', 'InvalidDevice.InUse') && / in use/i.test(error.message);
}

function noInstance(instance: string): NotFound {
  return new NotFound(`AWS has no machine ${JSON.stringify(instance)}: is HOLDFAST_CLOUD set to aws on that node?`);
}

function createError(error: unknown, { volumeId }: NewDisk): unknown {
  if (isRefusal(error, 'VolumeLimitExceeded', 'MaxIOPSLimitExceeded', 'InsufficientVolumeCapacity')) {
    return new ResourceExhausted(`volume ${volumeId}: ${error.message}`);
  }
  if (
    isRefusal(
      error,
      'InvalidParameterValue',
      'InvalidParameterCombination',
      'InvalidParameter',
      'InvalidZone.NotFound',
      'UnknownVolumeType',
    )
  ) {
    return new InvalidArgument(`volume ${volumeId}: ${error.message}`);
  }
  return error;
}

function attachError(error: unknown, diskId: string, instance: string): HoldfastError | unknown {
  if (isRefusal(error, 'AttachmentLimitExceeded')) {
    return new ResourceExhausted(`${instance} has as many volumes as it can have, and gets no ${diskId}.`);
  }
  if (isRefusal(error, 'InvalidInstanceID.NotFound', 'InvalidInstanceID.Malformed')) return noInstance(instance);
  if (isRefusal(error, 'InvalidVolume.NotFound')) return new NotFound(`AWS has no ${diskId}.`);
  if (isRefusal(error, 'InvalidVolume.ZoneMismatch')) {
    return new FailedPrecondition(`${diskId} is in another zone than ${instance}: ${error.message}`);
  }
  return error;
}
