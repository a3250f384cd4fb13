import { createHash } from 'node:crypto';
import type { z } from 'zod';
import {
  FailedPrecondition,
  InvalidArgument,
  NotFound,
  ResourceExhausted,
  Unavailable,
} from '../../../../volume/errors.ts';
import {
  type Cloud,
  type CloudDisk,
  type CloudLabels,
  type CloudPace,
  type CloudSnapshot,
  type NewDisk,
  Polling,
  shortId,
} from '../../../cloud-disk/cloud.ts';
import { diskNameIn, gceDiskIds, zoneIn } from '../disk-id.ts';
import { gceLabels, maxLabels } from '../labels.ts';
import { parseGceParameters } from '../parameters.ts';
import {
  diskPageSchema,
  diskSchema,
  type GceInstance,
  instanceSchema,
  operationPageSchema,
  pathIn,
  readDisk,
  readSnapshot,
  snapshotPageSchema,
  snapshotSchema,
} from './answers.ts';
import { type GceClient, GceRefusal } from './client.ts';
import { GceOperations, StillBusy } from './operations.ts';

const gibibyte = 1n << 30n;

export interface GceCloudOptions {
  readonly client: GceClient;
  readonly pace: CloudPace;
  readonly project: string;
  /** For all disks and snapshots, beside those of this driver. */
  readonly extraLabels: Readonly<Record<string, string>>;
}

const maxNames = 100;
/** Its creation, its first machine, and a record that also names the machine that it is published to: a path of up to 150 bytes. */
const laterLabels = 8;
/** The reasons that Google may have for not detaching a disk that is not attached. */
const goneReasons = ['notfound', 'resourcenotfound', 'invalid', 'invalidusage', 'invalidfieldvalue', 'badrequest'];
const instancePattern = /^projects\/[A-Za-z0-9.:-]+\/zones\/[a-z0-9-]+\/instances\/[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** Compute Engine, as far as it has disks. The ids of disks, machines and snapshots are their paths in its API. */
export class GceCloud implements Cloud {
  readonly name = 'Google';
  readonly isBlindToOtherZones = true;
  readonly granularityBytes = gibibyte;
  readonly #options: GceCloudOptions;
  readonly #operations: GceOperations;
  /** Names of disks and snapshots that this process has deleted: each is of one creation. */
  readonly #spentNames = new Set<string>();
  /** Disks and machines whose attachment this process has seen done, and not ended. */
  readonly #attached = new Set<string>();
  /** By volume: the disk that was asked for last, and may come to be. */
  readonly #asked = new Map<string, { readonly diskId: string; readonly atMs: number }>();

  constructor(options: GceCloudOptions) {
    this.#options = options;
    this.#operations = new GceOperations(options.client, options.pace);
  }

  isDiskId(text: string): boolean {
    return gceDiskIds.pattern.test(text);
  }

  async disks(labels: CloudLabels): Promise<CloudDisk[]> {
    const path = `projects/${this.#options.project}/aggregated/disks`;
    const found: CloudDisk[] = [];
    for await (const page of this.#pages(diskPageSchema, 'disks.aggregatedList', path, filterOf(labels))) {
      const away = Object.entries(page.items).filter(
        ([, { warning }]) => warning !== undefined && warning.code !== 'NO_RESULTS_ON_PAGE',
      );
      const missing = [...page.unreachables, ...away.map(([zone]) => zone)];
      // Without them a volume would seem not to be there.
      if (missing.length > 0)
        throw new Unavailable(`Google lists no disks of ${missing.slice(0, 3).join(', ')} now; try again.`);
      found.push(...Object.values(page.items).flatMap(({ disks }) => disks.map(readDisk)));
    }
    return found;
  }

  async disk(id: string): Promise<CloudDisk | undefined> {
    const shown = await this.#get(diskSchema, 'disks.get', id);
    return shown && readDisk(shown);
  }

  checkParameters(parameters: Readonly<Record<string, string>>, sizeBytes: bigint): void {
    parseGceParameters(parameters, sizeBytes);
  }

  /** A name is of one creation: the first that is not of a disk that was deleted, or of others, is taken. */
  async createDisk(disk: NewDisk): Promise<CloudDisk> {
    const earlier = await this.#askedElsewhere(disk);
    if (earlier !== undefined) return earlier;
    for (let number = 0; number < maxNames; number++) {
      const name = nameOf(disk.labels[gceLabels.pool], disk.volumeId, number);
      const made = this.#spentNames.has(name) ? undefined : await this.#createAs(name, disk);
      if (made !== undefined) return made;
    }
    throw new Unavailable(`volume ${disk.volumeId} was made and deleted too often since the start: use another name.`);
  }

  async deleteDisk(id: string): Promise<void> {
    try {
      await this.#operations.run({ action: 'disks.delete', method: 'DELETE', path: id });
    } catch (error) {
      if (isRefusal(error, 'resourceinusebyanotherresource')) {
        throw new FailedPrecondition(`${diskNameIn(id)} is attached to a machine: unpublish its volume first.`);
      }
      if (!isRefusal(error, 'notfound', 'resourcenotfound')) throw error;
    }
    this.#spentNames.add(diskNameIn(id));
  }

  /** Labels are replaced as a whole, and only if they are those that were read. */
  async label(id: string, labels: CloudLabels): Promise<void> {
    const { pace } = this.#options;
    const endMs = performance.now() + pace.waitMs;
    const polling = new Polling(pace);
    for (;;) {
      const shown = await this.#until(diskNameIn(id), () => this.#get(diskSchema, 'disks.get', id));
      if (shown.labels[gceLabels.pool] === undefined) {
        throw new FailedPrecondition(
          `${diskNameIn(id)} has no label ${gceLabels.pool} any more, and is left as it is.`,
        );
      }
      const merged = { ...shown.labels, ...labels };
      requireRoom(merged, diskNameIn(id));
      try {
        const body = { labels: merged, labelFingerprint: shown.labelFingerprint };
        await this.#operations.run({ action: 'disks.setLabels', method: 'POST', path: `${id}/setLabels`, body });
        return;
      } catch (error) {
        if (isRefusal(error, 'notfound', 'resourcenotfound'))
          throw new NotFound(`Google has no ${diskNameIn(id)} to label.`);
        // Others have changed them since, or the look was old.
        if (!isRefusal(error, 'conditionnotmet') || performance.now() >= endMs) throw error;
      }
      await polling.pause();
    }
  }

  async growDisk({ id }: CloudDisk, sizeBytes: bigint): Promise<void> {
    try {
      const body = { sizeGb: `${sizeBytes / gibibyte}` };
      await this.#operations.run({ action: 'disks.resize', method: 'POST', path: `${id}/resize`, body });
    } catch (error) {
      // One that a try before this has grown is refused.
      const shown = await this.disk(id);
      if (shown !== undefined && shown.sizeBytes >= sizeBytes) return;
      if (isRefusal(error, 'resourceoperationrateexceeded', 'operationrateexceeded')) {
        throw new Unavailable(`Google changes ${diskNameIn(id)} only some hours after its last change: it grows then.`);
      }
      throw error;
    }
    await this.#until(`the new size of ${diskNameIn(id)}`, async () => {
      const shown = await this.disk(id);
      return shown !== undefined && shown.sizeBytes >= sizeBytes ? shown : undefined;
    });
  }

  /** Names of machines come back: GKE repairs one by making it again. */
  async requireInstance(instance: string): Promise<string> {
    const found = instancePattern.test(instance) ? await this.#instance(instance) : undefined;
    if (found === undefined) throw noInstance(instance);
    return [instance, found.id].join(' ');
  }

  async attach({ id }: CloudDisk, instance: string): Promise<boolean> {
    const name = diskNameIn(id);
    if (zoneIn(id) !== zoneIn(instance)) {
      throw new FailedPrecondition(`${name} is in zone ${zoneIn(id)}, and ${shortId(instance)} in another.`);
    }
    // It outlives the machine.
    const body = { source: id, deviceName: name, mode: 'READ_WRITE', type: 'PERSISTENT', autoDelete: false };
    try {
      await this.#operations.run({ action: 'attachDisk', method: 'POST', path: `${instance}/attachDisk`, body });
      this.#attached.add(`${id} ${instance}`);
      return true;
    } catch (error) {
      // Attached by an earlier call of this driver, or not detached yet: the caller looks.
      if (isRefusal(error, 'resourceinusebyanotherresource')) return false;
      // The disk, which is not detached yet, and not the machine.
      if (isRefusal(error, 'resourcenotready') && !error.words.includes('/instances/')) return false;
      throw await this.#attachError(error, id, instance);
    }
  }

  async isEnding(id: string, instance: string): Promise<boolean> {
    return !this.#attached.has(`${id} ${instance}`) && (await this.#isBusy('detachDisk', instance));
  }

  /** An operation names the machine, and not the disk. */
  async #isBusy(type: 'attachDisk' | 'detachDisk', instance: string): Promise<boolean> {
    const path = `${instance.slice(0, instance.indexOf('/instances/'))}/operations`;
    const filter = `(operationType = "${type}") AND (status != "DONE")`;
    for await (const page of this.#pages(operationPageSchema, 'zoneOperations.list', path, filter)) {
      if (page.items.some(({ targetLink }) => pathIn(targetLink) === instance)) return true;
    }
    return false;
  }

  async isFindable(id: string, instance: string): Promise<boolean> {
    const name = diskNameIn(id);
    const shown = (await this.#instance(instance))?.disks.find(({ source }) => pathIn(source) === id);
    if (shown === undefined || shown.deviceName === name) return shown !== undefined;
    throw new FailedPrecondition(
      `${name} is attached to ${shortId(instance)} as device ${shown.deviceName}, where its node does not find it: detach it there.`,
    );
  }

  /** A device's name may be that of another disk at the machine, which must stay there. */
  async detach(id: string, instance: string): Promise<void> {
    this.#attached.delete(`${id} ${instance}`);
    const machine = instancePattern.test(instance) ? await this.#instance(instance) : undefined;
    if (machine === undefined) return;
    // Asked before the attachment is ended: one that is asked for and has not begun would stay.
    const isAttaching = !shows(machine, id) && (await this.#isBusy('attachDisk', instance));
    const isDetached = await this.#detachDevice(id, instance, deviceNameOf(machine, id));
    if (isAttaching && !isDetached) {
      throw new Unavailable(
        `${shortId(instance)} is getting a disk, which may be ${diskNameIn(id)}: it is detached after that; try again.`,
      );
    }
  }

  /** @returns whether it was attached */
  async #detachDevice(id: string, instance: string, deviceName: string | undefined): Promise<boolean> {
    if (deviceName === undefined) return false;
    try {
      const path = `${instance}/detachDisk`;
      await this.#operations.run({ action: 'detachDisk', method: 'POST', path, query: { deviceName } });
      return true;
    } catch (error) {
      // The caller looks: a machine that hangs keeps its disks.
      if (error instanceof StillBusy) return true;
      // Google has several words for a disk that is not there.
      if (isRefusal(error, ...goneReasons) && !shows(await this.#instance(instance), id)) return false;
      throw error;
    }
  }

  async snapshots(labels: CloudLabels): Promise<CloudSnapshot[]> {
    const path = `projects/${this.#options.project}/global/snapshots`;
    const found: CloudSnapshot[] = [];
    for await (const page of this.#pages(snapshotPageSchema, 'snapshots.list', path, filterOf(labels))) {
      found.push(...page.items.map(readSnapshot));
    }
    return found;
  }

  async createSnapshot(diskId: string, labels: CloudLabels): Promise<CloudSnapshot> {
    const { extraLabels, project } = this.#options;
    const all = { ...extraLabels, ...labels };
    requireRoom(all, 'a snapshot');
    for (let number = 0; number < maxNames; number++) {
      const name = nameOf(labels[gceLabels.pool], labels[gceLabels.snapshot], number);
      if (this.#spentNames.has(name)) continue;
      const id = `projects/${project}/global/snapshots/${name}`;
      const look = async () => await this.#snapshot(id);
      try {
        const body = { name, labels: all };
        const call = { action: 'createSnapshot', method: 'POST', path: `${diskId}/createSnapshot`, body } as const;
        // The operation lasts until all is copied; from its beginning the snapshot is what the disk was then.
        await this.#operations.run(call, async () => (await look()) !== undefined);
      } catch (error) {
        if (isRefusal(error, 'resourceoperationrateexceeded', 'operationrateexceeded')) {
          throw new Unavailable(`Google takes a snapshot of ${diskNameIn(diskId)} only every few minutes; try again.`);
        }
        if (!isRefusal(error, 'alreadyexists', 'resourcealreadyexists')) throw error;
      }
      const shown = await this.#until(`snapshot ${name}`, look);
      if (isOf(shown, labels, gceLabels.snapshot)) return shown;
    }
    throw new Unavailable(`a snapshot of ${diskNameIn(diskId)} was made and deleted too often: use another name.`);
  }

  async deleteSnapshot(id: string): Promise<void> {
    try {
      await this.#operations.run({ action: 'snapshots.delete', method: 'DELETE', path: id });
    } catch (error) {
      if (!isRefusal(error, 'notfound', 'resourcenotfound')) throw error;
    }
    this.#spentNames.add(diskNameIn(id));
  }

  close(): void {}

  get #client(): GceClient {
    return this.#options.client;
  }

  /** Names differ from zone to zone alone: a disk that was asked for in another one may still come to be. */
  async #askedElsewhere({ labels, volumeId, zone }: NewDisk): Promise<CloudDisk | undefined> {
    const asked = this.#asked.get(volumeId);
    if (asked === undefined || zoneIn(asked.diskId) === zone) return undefined;
    const shown = this.#spentNames.has(diskNameIn(asked.diskId)) ? undefined : await this.disk(asked.diskId);
    if (shown !== undefined && isOf(shown, labels, gceLabels.volume)) return shown;
    if (performance.now() - asked.atMs < this.#options.pace.settleMs) {
      throw new Unavailable(
        `volume ${volumeId} was being made in ${zoneIn(asked.diskId)} a moment ago, and Google does not show that disk yet; try again.`,
      );
    }
    return undefined;
  }

  /** @returns undefined: the name is of a disk that goes, or of others */
  async #createAs(name: string, disk: NewDisk): Promise<CloudDisk | undefined> {
    const { extraLabels, project } = this.#options;
    const { sizeBytes, snapshotId, volumeId, zone } = disk;
    const chosen = parseGceParameters(disk.parameters, sizeBytes);
    const labels = { ...extraLabels, ...chosen.labels, ...disk.labels };
    requireRoom(labels, `the disk of volume ${volumeId}`, laterLabels);
    const place = `projects/${project}/zones/${zone}`;
    const id = `${place}/disks/${name}`;
    if (!gceDiskIds.pattern.test(id)) throw new InvalidArgument(`volume ${volumeId}: ${zone} is no zone of Google.`);
    const body = {
      ...{ name, labels, description: `Holdfast: ${disk.name}`, sizeGb: `${sizeBytes / gibibyte}` },
      type: `${place}/diskTypes/${chosen.type}`,
      sourceSnapshot: snapshotId,
      diskEncryptionKey: chosen.kmsKey === undefined ? undefined : { kmsKeyName: chosen.kmsKey },
      provisionedIops: chosen.iops,
      provisionedThroughput: chosen.throughput,
    };
    this.#asked.set(volumeId, { diskId: id, atMs: performance.now() });
    try {
      await this.#operations.run({ action: 'disks.insert', method: 'POST', path: `${place}/disks`, body });
    } catch (error) {
      if (!isRefusal(error, 'alreadyexists', 'resourcealreadyexists')) throw createError(error, disk);
    }
    const shown = await this.#until(name, () => this.disk(id));
    if (!isOf(shown, disk.labels, gceLabels.volume)) return undefined;
    this.#asked.delete(volumeId);
    return shown;
  }

  /** Waits, as Google shows changes late. @throws Unavailable if it shows nothing for too long */
  async #until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
    const { pace } = this.#options;
    const endMs = performance.now() + pace.settleMs;
    const polling = new Polling(pace);
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      if (performance.now() >= endMs) throw new Unavailable(`Google does not show ${what} yet; try again.`);
      await polling.pause();
    }
  }

  async #snapshot(id: string): Promise<CloudSnapshot | undefined> {
    const shown = await this.#get(snapshotSchema, 'snapshots.get', id);
    return shown && readSnapshot(shown);
  }

  #instance(instance: string): Promise<GceInstance | undefined> {
    return this.#get(instanceSchema, 'instances.get', instance);
  }

  async #attachError(error: unknown, id: string, instance: string): Promise<unknown> {
    if (!(error instanceof GceRefusal)) return error;
    const name = diskNameIn(id);
    if (error.reason === 'limitexceeded' || /limit.*(disks|hyperdisk)/i.test(error.words)) {
      return new ResourceExhausted(`${shortId(instance)} has as many disks as it can have, and gets no ${name}.`);
    }
    if (error.reason === 'notfound' || error.reason === 'resourcenotfound') {
      return (await this.#instance(instance)) === undefined
        ? noInstance(instance)
        : new NotFound(`Google has no ${name}.`);
    }
    // The type of machine may not take this type of disk.
    if (error.reason === 'invalid' || error.reason === 'badrequest' || error.reason === 'invalidusage') {
      return new FailedPrecondition(`${name} cannot be attached to ${shortId(instance)}: ${error.words.slice(0, 100)}`);
    }
    return error;
  }

  async #get<T>(schema: z.ZodType<T>, action: string, path: string): Promise<T | undefined> {
    try {
      return await this.#client.call(schema, { action, method: 'GET', path });
    } catch (error) {
      if (isRefusal(error, 'notfound')) return undefined;
      throw error;
    }
  }

  async *#pages<T extends { readonly nextPageToken?: string | undefined }>(
    schema: z.ZodType<T>,
    action: string,
    path: string,
    filter: string,
  ): AsyncGenerator<T, void, void> {
    let pageToken: string | undefined;
    do {
      const query = { filter, maxResults: '500', pageToken };
      const page = await this.#client.call(schema, { action, method: 'GET', path, query });
      yield page;
      pageToken = page.nextPageToken;
    } while (pageToken !== undefined && pageToken !== '');
  }
}

function filterOf(labels: CloudLabels): string {
  return Object.entries(labels)
    .map(([name, value]) => `(labels.${name} = "${value}")`)
    .join(' AND ');
}

/** The same for each try of a creation, and another one for the next. */
function nameOf(poolId: string | undefined, id: string | undefined, number: number): string {
  const digest = createHash('sha256').update(`${poolId} ${id} ${number}`).digest('hex');
  return `holdfast-${digest.slice(0, 24)}`;
}

/** The name of the disk's device at the machine; undefined: another disk has the name that it would have. */
function deviceNameOf({ disks }: GceInstance, id: string): string | undefined {
  const shown = disks.find(({ source }) => pathIn(source) === id);
  if (shown !== undefined) return shown.deviceName;
  const name = diskNameIn(id);
  return disks.some(({ deviceName }) => deviceName === name) ? undefined : name;
}

/** Answers if a disk or snapshot is that of a volume or snapshot of the pool, and stays. */
function isOf({ labels, state }: Pick<CloudDisk, 'labels' | 'state'>, wanted: CloudLabels, key: string): boolean {
  return state !== 'going' && labels[gceLabels.pool] === wanted[gceLabels.pool] && labels[key] === wanted[key];
}

/** @param later the labels that it gets later: without room for them it could not be published */
function requireRoom(labels: CloudLabels, what: string, later = 0): void {
  const count = Object.keys(labels).length + later;
  if (count <= maxLabels) return;
  throw new InvalidArgument(
    `${what} would have ${count} labels, and Google takes ${maxLabels}: use fewer labels and parameters in its class, or a shorter name.`,
  );
}

function isRefusal(error: unknown, ...reasons: readonly string[]): error is GceRefusal {
  return error instanceof GceRefusal && reasons.includes(error.reason);
}

function shows(machine: GceInstance | undefined, id: string): boolean {
  return machine?.disks.some(({ source }) => pathIn(source) === id) === true;
}

function noInstance(instance: string): NotFound {
  return new NotFound(
    `Google has no machine ${JSON.stringify(shortId(instance))}: is HOLDFAST_CLOUD set to gce on that node?`,
  );
}

function createError(error: unknown, { volumeId }: NewDisk): unknown {
  if (!(error instanceof GceRefusal)) return error;
  const words = `volume ${volumeId}: ${error.words.slice(0, 130)}`;
  if (
    ['quotaexceeded', 'limitexceeded'].includes(error.reason) ||
    error.reason.startsWith('zoneresourcepoolexhausted')
  ) {
    return new ResourceExhausted(words);
  }
  if (['invalid', 'badrequest', 'invalidusage', 'invalidfieldvalue', 'unsupportedoperation'].includes(error.reason)) {
    return new InvalidArgument(words);
  }
  if (/kms|cryptokey/i.test(error.words)) {
    return new FailedPrecondition(`${words} (may Google's service agent use the key of the class?)`);
  }
  return error;
}
