import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/*
 * A fake of EC2, written after its API reference (2016-11-15): a server on the loopback device, with what hurts drivers: answers
 * that are lost, requests that are refused for their number, lists that are late, device names that are taken, attachments that
 * never end.
 */

export interface FakeAttachment {
  readonly instance: string;
  readonly device: string;
  status: 'attaching' | 'attached' | 'detaching';
  readonly sinceMs: number;
}

export interface FakeVolume {
  readonly id: string;
  sizeGiB: number;
  readonly zone: string;
  readonly createdMs: number;
  status: 'creating' | 'available' | 'in-use' | 'error' | 'deleted';
  tags: Record<string, string>;
  attachment: FakeAttachment | undefined;
  modification: { targetGiB: number; state: 'modifying' | 'optimizing' | 'completed' } | undefined;
  readonly snapshotId: string | undefined;
  readonly parameters: Readonly<Record<string, string>>;
}

export interface FakeSnapshot {
  readonly id: string;
  readonly volumeId: string;
  readonly sizeGiB: number;
  readonly createdMs: number;
  status: 'pending' | 'completed' | 'error';
  tags: Record<string, string>;
}

interface FakeInstance {
  readonly zone: string;
  readonly maxVolumes: number;
}

/** Plugs disks into machines. */
export interface Plugs {
  created?(volume: FakeVolume): void;
  deleted?(volume: FakeVolume): void;
  snapshotTaken?(snapshot: FakeSnapshot): void;
  plug?(volume: FakeVolume, instance: string): Promise<void> | void;
  unplug?(volume: FakeVolume, instance: string): Promise<void> | void;
  resized?(volume: FakeVolume): Promise<void> | void;
}

export interface FakeTroubles {
  /** Shares of requests, 0 to 1. */
  lostAnswers: number;
  droppedRequests: number;
  throttled: number;
  failed: number;
  /** What lists and looks show is up to so old. */
  lateMs: number;
  /** The time that a creation, an attachment and so on take. */
  workMs: number;
}

const untroubled: FakeTroubles = { lostAnswers: 0, droppedRequests: 0, throttled: 0, failed: 0, lateMs: 0, workMs: 0 };

class Refusal extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

type Values = Readonly<Record<string, string>>;

/** How an object was at its last changes. */
interface Version<T> {
  readonly atMs: number;
  readonly value: T;
}

export const fakeKey = { accessKeyId: 'AKIAFAKE', secretAccessKey: 'fake-secret' } as const;

export class FakeEc2 implements AsyncDisposable {
  readonly volumes = new Map<string, FakeVolume>();
  readonly snapshots = new Map<string, FakeSnapshot>();
  readonly instances = new Map<string, FakeInstance>();
  /** Names that stay in use in a machine: `i-1 /dev/xvdaa`. */
  readonly stuckNames = new Set<string>();
  /** Machines from which nothing detaches: their system hangs. */
  readonly hungInstances = new Set<string>();
  /** Each request that was carried out. */
  readonly calls: { readonly action: string; readonly values: Values }[] = [];
  /** Every attachment that ever began and was not over when another one did. */
  readonly breaches: string[] = [];
  troubles: FakeTroubles = { ...untroubled };
  plugs: Plugs = {};
  /** Keys that may not be used: volumes with them vanish. */
  readonly forbiddenKeys = new Set<string>();
  modificationsRefused = false;
  /** More of what the metadata service says. */
  metadata: Record<string, string> = {};
  readonly #server: Server;
  readonly #random: () => number;
  readonly #tokens = new Map<string, { readonly print: string; readonly id: string; readonly createdMs: number }>();
  readonly #history = new Map<string, Version<FakeVolume | FakeSnapshot>[]>();
  readonly #pending = new Set<Promise<void>>();
  readonly #losing = new Set<string>();
  readonly #refusing = new Map<string, string>();
  /** What looks show of these stays. */
  readonly #frozen = new Set<string>();
  #number = 0;

  private constructor(random: () => number) {
    this.#random = random;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(random: () => number = Math.random): Promise<FakeEc2> {
    const fake = new FakeEc2(random);
    fake.#server.listen(0, '127.0.0.1');
    await once(fake.#server, 'listening');
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  instance(id: string, { maxVolumes = 26, zone = 'eu-test-1a' }: Partial<FakeInstance> = {}): string {
    this.instances.set(id, { zone, maxVolumes });
    return id;
  }

  /** Changes tags by hand. */
  async retag(id: string, tags: Record<string, string>): Promise<void> {
    const volume = this.#requireVolume(id);
    volume.tags = { ...volume.tags, ...tags };
    this.#changed(volume);
  }

  fail(id: string): void {
    const volume = this.#requireVolume(id);
    volume.status = 'error';
    this.#changed(volume);
  }

  setTags(id: string, tags: Record<string, string>): void {
    const volume = this.#requireVolume(id);
    volume.tags = tags;
    this.#changed(volume);
  }

  deleteByHand(id: string): void {
    this.#deleteVolume(id);
  }

  /** From now on looks at the volumes with this id show them without an attachment. */
  showDetached(volumeId: string): void {
    for (const volume of this.volumes.values()) {
      if (volume.tags['holdfast.dev/volume'] !== volumeId) continue;
      this.#history.set(volume.id, [{ atMs: 0, value: { ...volume, status: 'available', attachment: undefined } }]);
      this.#frozen.add(volume.id);
    }
  }

  /** The next request of this sort is refused with this code. */
  refuseNext(action: string, code: string): void {
    this.#refusing.set(action, code);
  }

  /** The next request of this sort is carried out, and has no answer. */
  loseNext(action: string): void {
    this.#losing.add(action);
  }

  /** Waits for all that is under way. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /** A volume that was made by somebody else. */
  foreignVolume(tags: Record<string, string> = {}, sizeGiB = 1): FakeVolume {
    return this.#newVolume({ sizeGiB, zone: 'eu-test-1a', snapshotId: undefined, tags, parameters: {} });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.settled();
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url?.startsWith('/latest/') === true) return this.#metadata(request, response);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const values = Object.fromEntries(new URLSearchParams(body));
    const { Action: action = '' } = values;
    const { droppedRequests, failed, lostAnswers, throttled } = this.troubles;
    if (this.#random() < droppedRequests) return void request.socket.destroy();
    let status = 200;
    let text: string;
    try {
      this.#requireSignature(request, body);
      if (this.#random() < throttled) throw new Refusal('RequestLimitExceeded', 'Request limit exceeded.', 503);
      if (this.#random() < failed / 2) throw new Refusal('InternalError', 'An internal error has occurred', 500);
      const code = this.#refusing.get(action);
      this.#refusing.delete(action);
      if (code !== undefined) throw new Refusal(code, `${action} is refused`);
      text = await this.#act(action, values);
      this.calls.push({ action, values });
      if (this.#random() < failed / 2) throw new Refusal('InternalError', 'An internal error has occurred', 500);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      status = error.status;
      text = `<Response><Errors><Error><Code>${error.code}</Code><Message>${xmlText(error.message)}</Message></Error></Errors><RequestID>1</RequestID></Response>`;
    }
    if (this.#losing.delete(action) || this.#random() < lostAnswers) return void request.socket.destroy();
    response.writeHead(status, { 'content-type': 'text/xml;charset=UTF-8' });
    response.end(`<?xml version="1.0" encoding="UTF-8"?>\n${text}`);
  }

  /** The metadata service of the first machine, in version 2 alone. */
  #metadata({ headers, method, url = '' }: IncomingMessage, response: ServerResponse): void {
    const [id = 'i-0', { zone } = { zone: 'eu-test-1a' }] = [...this.instances][0] ?? [];
    const entries: Record<string, string | undefined> = {
      'meta-data/instance-id': id,
      'meta-data/placement/availability-zone': zone,
      'meta-data/placement/region': zone.slice(0, -1),
      'meta-data/network/interfaces/macs/': '02:00:00:00:00:01/\n02:00:00:00:00:02/',
      'meta-data/block-device-mapping/': 'ami\nroot\nephemeral0',
      ...this.metadata,
    };
    if (method === 'PUT') return void response.end('token');
    const found = headers['x-aws-ec2-metadata-token'] === 'token' ? entries[url.slice('/latest/'.length)] : undefined;
    response.statusCode = headers['x-aws-ec2-metadata-token'] !== 'token' ? 401 : found === undefined ? 404 : 200;
    response.end(found ?? '');
  }

  /** Signature Version 4, computed here from AWS's description. */
  #requireSignature({ headers, method = '', url = '' }: IncomingMessage, body: string): void {
    const pattern =
      /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(([0-9]{8})\/([^/]+)\/ec2\/aws4_request), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/;
    const [, key, scope = '', date = '', region = '', signed = '', signature] =
      pattern.exec(headers.authorization ?? '') ?? [];
    const names = signed.split(';');
    if (key !== fakeKey.accessKeyId || !names.includes('host') || !names.includes('content-type')) {
      throw new Refusal('AuthFailure', 'AWS was not able to validate the provided access credentials', 401);
    }
    const hash = (text: string) => createHash('sha256').update(text).digest('hex');
    const hmac = (secret: Buffer | string, text: string) => createHmac('sha256', secret).update(text).digest();
    const lines = names.map((name) => `${name}:${String(headers[name] ?? '').trim()}\n`).join('');
    const canonical = [method, url, '', lines, signed, hash(body)].join('\n');
    const toSign = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, hash(canonical)].join('\n');
    const dateKey = hmac(`AWS4${fakeKey.secretAccessKey}`, date);
    const signingKey = hmac(hmac(hmac(dateKey, region), 'ec2'), 'aws4_request');
    if (hmac(signingKey, toSign).toString('hex') === signature) return;
    throw new Refusal('SignatureDoesNotMatch', 'The request signature we calculated does not match', 403);
  }

  async #act(action: string, values: Values): Promise<string> {
    switch (action) {
      case 'CreateVolume':
        return answer(action, volumeXml(this.#createVolume(values)));
      case 'DeleteVolume':
        this.#deleteVolume(values['VolumeId'] ?? '');
        return answer(action, '<return>true</return>');
      case 'DescribeVolumes':
        return answer(action, list('volumeSet', this.#describeVolumes(values).map(volumeXml)));
      case 'CreateTags':
        this.#createTags(values);
        return answer(action, '<return>true</return>');
      case 'AttachVolume':
        return answer(action, `<status>${this.#attach(values)}</status>`);
      case 'DetachVolume':
        return answer(action, `<status>${this.#detach(values)}</status>`);
      case 'DescribeInstances':
        return answer(action, this.#describeInstances(values));
      case 'ModifyVolume':
        return answer(action, `<volumeModification>${this.#modify(values)}</volumeModification>`);
      case 'DescribeVolumesModifications':
        return answer(action, list('volumeModificationSet', [this.#modification(values)]));
      case 'CreateSnapshot':
        return answer(action, snapshotXml(this.#createSnapshot(values)));
      case 'DeleteSnapshot':
        this.#deleteSnapshot(values['SnapshotId'] ?? '');
        return answer(action, '<return>true</return>');
      case 'DescribeSnapshots':
        return answer(action, list('snapshotSet', this.#describeSnapshots(values).map(snapshotXml)));
      default:
        throw new Refusal('InvalidAction', `The action ${action} is not valid`);
    }
  }

  #createVolume(values: Values): FakeVolume {
    const { AvailabilityZone: zone = '', ClientToken: token, SnapshotId: snapshotId, Size = '' } = values;
    const print = JSON.stringify(Object.entries(values).sort());
    const before = token === undefined ? undefined : this.#tokens.get(token);
    if (before !== undefined) {
      if (before.print !== print) {
        throw new Refusal('IdempotentParameterMismatch', 'The client token is used with other parameters.');
      }
      return this.volumes.get(before.id) ?? goneVolume(before.id, before.createdMs, zone, Number(Size));
    }
    const snapshot = snapshotId === undefined ? undefined : this.snapshots.get(snapshotId);
    if (snapshotId !== undefined && snapshot === undefined) {
      throw new Refusal('InvalidSnapshot.NotFound', `The snapshot '${snapshotId}' does not exist.`);
    }
    if (snapshot?.status === 'pending') throw new Refusal('IncorrectState', `Snapshot is in invalid state - pending`);
    if (!zone.startsWith('eu-test-1')) throw new Refusal('InvalidZone.NotFound', `The zone '${zone}' does not exist.`);
    if (snapshot !== undefined && Number(Size) < snapshot.sizeGiB) {
      throw new Refusal('InvalidParameterValue', 'The volume is smaller than its snapshot');
    }
    const tags = tagsIn('TagSpecification.1.Tag', values);
    const parameters = {
      type: values['VolumeType'] ?? 'gp2',
      iops: values['Iops'] ?? '',
      key: values['KmsKeyId'] ?? '',
    };
    const volume = this.#newVolume({ sizeGiB: Number(Size), zone, snapshotId, tags, parameters });
    if (token !== undefined) this.#tokens.set(token, { print, id: volume.id, createdMs: volume.createdMs });
    return volume;
  }

  #newVolume({
    parameters,
    sizeGiB,
    snapshotId,
    tags,
    zone,
  }: Pick<FakeVolume, 'parameters' | 'sizeGiB' | 'snapshotId' | 'tags' | 'zone'>): FakeVolume {
    const volume: FakeVolume = {
      ...{ id: this.#newId('vol'), sizeGiB, zone, createdMs: Date.now(), status: 'creating', tags },
      ...{ attachment: undefined, modification: undefined, snapshotId, parameters },
    };
    this.volumes.set(volume.id, volume);
    this.plugs.created?.(volume);
    this.#later(() => {
      if (this.forbiddenKeys.has(parameters['key'] ?? '')) this.#forgetVolume(volume);
      else volume.status = 'available';
      this.#changed(volume);
    });
    this.#changed(volume);
    return volume;
  }

  #deleteVolume(id: string): void {
    const volume = this.#requireVolume(id);
    if (volume.attachment !== undefined) throw new Refusal('VolumeInUse', `Volume ${id} is currently attached`);
    if (volume.status === 'creating') throw new Refusal('IncorrectState', `Volume ${id} is being created`);
    this.#forgetVolume(volume);
    this.#changed(volume);
  }

  #forgetVolume(volume: FakeVolume): void {
    volume.status = 'deleted';
    this.volumes.delete(volume.id);
    this.plugs.deleted?.(volume);
  }

  #requireVolume(id: string): FakeVolume {
    const volume = this.volumes.get(id);
    if (volume === undefined) throw new Refusal('InvalidVolume.NotFound', `The volume '${id}' does not exist.`);
    return volume;
  }

  #describeVolumes(values: Values): FakeVolume[] {
    const shown = this.#shown<FakeVolume>('vol').filter(({ status }) => status !== 'deleted');
    const id = values['VolumeId.1'];
    if (id === undefined) return shown.filter((volume) => filtersIn(values).every((filter) => fits(volume, filter)));
    const volume = shown.find((each) => each.id === id);
    if (volume === undefined) throw new Refusal('InvalidVolume.NotFound', `The volume '${id}' does not exist.`);
    return [volume];
  }

  #createTags(values: Values): void {
    const id = values['ResourceId.1'] ?? '';
    const volume = this.#requireVolume(id);
    volume.tags = { ...volume.tags, ...tagsIn('Tag', values) };
    if (Object.keys(volume.tags).length > 50) throw new Refusal('TagLimitExceeded', 'more than 50 tags');
    this.#changed(volume);
  }

  #attach(values: Values): string {
    const { Device: device = '', InstanceId: instance = '', VolumeId: id = '' } = values;
    const machine = this.instances.get(instance);
    const volume = this.#requireVolume(id);
    if (machine === undefined)
      throw new Refusal('InvalidInstanceID.NotFound', `The instance ID '${instance}' does not exist`);
    if (machine.zone !== volume.zone) throw new Refusal('InvalidVolume.ZoneMismatch', `${id} is in another zone`);
    if (volume.attachment !== undefined) {
      throw new Refusal('VolumeInUse', `${id} is already attached to an instance`);
    }
    if (volume.status !== 'available') throw new Refusal('IncorrectState', `Volume '${id}' is not 'available'.`);
    const there = [...this.volumes.values()].filter((each) => each.attachment?.instance === instance);
    if (there.some((each) => each.attachment?.device === device)) {
      throw new Refusal(
        'InvalidParameterValue',
        `Invalid value '${device}' for unixDevice. Attachment point ${device} is already in use`,
      );
    }
    if (there.length >= machine.maxVolumes)
      throw new Refusal('AttachmentLimitExceeded', 'Volume attachment limit exceeded');
    const attachment: FakeAttachment = { instance, device, status: 'attaching', sinceMs: Date.now() };
    volume.attachment = attachment;
    volume.status = 'in-use';
    this.#changed(volume);
    if (this.stuckNames.has(`${instance} ${device}`)) return 'attaching';
    this.#later(async () => {
      if (volume.attachment !== attachment || attachment.status !== 'attaching') return;
      await this.plugs.plug?.(volume, instance);
      attachment.status = 'attached';
      this.#changed(volume);
    });
    return 'attaching';
  }

  #detach(values: Values): string {
    const { InstanceId: instance = '', VolumeId: id = '' } = values;
    const volume = this.#requireVolume(id);
    const { attachment } = volume;
    if (attachment === undefined) throw new Refusal('IncorrectState', `Volume '${id}' is in the 'available' state.`);
    if (attachment.instance !== instance) {
      throw new Refusal('InvalidAttachment.NotFound', `Volume ${id} is not attached to ${instance}`);
    }
    if (attachment.status === 'detaching') return 'detaching';
    const wasAttached = attachment.status === 'attached';
    attachment.status = 'detaching';
    this.#changed(volume);
    if (this.hungInstances.has(instance)) return 'detaching';
    this.#later(async () => {
      if (wasAttached) await this.plugs.unplug?.(volume, instance);
      volume.attachment = undefined;
      volume.status = 'available';
      this.#changed(volume);
    });
    return 'detaching';
  }

  #describeInstances(values: Values): string {
    const id = values['InstanceId.1'] ?? '';
    if (!this.instances.has(id))
      throw new Refusal('InvalidInstanceID.NotFound', `The instance ID '${id}' does not exist`);
    const attached = [...this.volumes.values()].filter(
      ({ attachment }) => attachment?.instance === id && attachment.status === 'attached',
    );
    const devices = attached.map(({ attachment }) => `<deviceName>${attachment?.device}</deviceName>`);
    const instance = `<instanceId>${id}</instanceId><instanceState><name>running</name></instanceState>${list('blockDeviceMapping', devices)}`;
    return list('reservationSet', [list('instancesSet', [instance])]);
  }

  #modify(values: Values): string {
    const volume = this.#requireVolume(values['VolumeId'] ?? '');
    if (this.modificationsRefused || volume.modification?.state === 'optimizing') {
      throw new Refusal(
        'VolumeModificationRateExceeded',
        'You have reached the maximum modification rate per volume limit.',
      );
    }
    const modification: NonNullable<FakeVolume['modification']> = {
      targetGiB: Number(values['Size']),
      state: 'modifying',
    };
    volume.modification = modification;
    this.#later(async () => {
      volume.sizeGiB = modification.targetGiB;
      await this.plugs.resized?.(volume);
      modification.state = 'optimizing';
      this.#changed(volume);
    });
    return modificationXml(volume);
  }

  #modification(values: Values): string {
    const volume = this.#requireVolume(values['VolumeId.1'] ?? '');
    if (volume.modification === undefined) {
      throw new Refusal('InvalidVolumeModification.NotFound', `Modification for volume '${volume.id}' does not exist.`);
    }
    return modificationXml(volume);
  }

  #createSnapshot(values: Values): FakeSnapshot {
    const volume = this.#requireVolume(values['VolumeId'] ?? '');
    const snapshot: FakeSnapshot = {
      ...{ id: this.#newId('snap'), volumeId: volume.id, sizeGiB: volume.sizeGiB, createdMs: Date.now() },
      ...{ status: 'pending', tags: tagsIn('TagSpecification.1.Tag', values) },
    };
    this.snapshots.set(snapshot.id, snapshot);
    this.plugs.snapshotTaken?.(snapshot);
    this.#later(() => {
      snapshot.status = 'completed';
      this.#changed(snapshot);
    });
    this.#changed(snapshot);
    return snapshot;
  }

  #deleteSnapshot(id: string): void {
    const snapshot = this.snapshots.get(id);
    if (snapshot === undefined) throw new Refusal('InvalidSnapshot.NotFound', `The snapshot '${id}' does not exist.`);
    this.snapshots.delete(id);
    this.#history.delete(id);
  }

  #describeSnapshots(values: Values): FakeSnapshot[] {
    return this.#shown<FakeSnapshot>('snap').filter((each) => filtersIn(values).every((filter) => fits(each, filter)));
  }

  #newId(kind: 'snap' | 'vol'): string {
    return `${kind}-${(++this.#number).toString(16).padStart(17, '0')}`;
  }

  #later(work: () => Promise<void> | void): void {
    const { workMs } = this.troubles;
    const pending = new Promise<void>((resolve) => {
      setTimeout(resolve, workMs * (0.5 + this.#random()));
    }).then(work);
    const ended = pending.finally(() => this.#pending.delete(ended));
    this.#pending.add(ended);
  }

  #changed(object: FakeVolume | FakeSnapshot): void {
    if (this.#frozen.has(object.id)) return;
    const attachment = 'attachment' in object && object.attachment ? { attachment: { ...object.attachment } } : {};
    const versions = this.#history.get(object.id) ?? [];
    versions.push({ atMs: performance.now(), value: { ...object, tags: { ...object.tags }, ...attachment } });
    // A test may have looks be late only from a later time on.
    const oldMs = performance.now() - Math.max(this.troubles.lateMs, 2_000);
    while ((versions[1]?.atMs ?? Infinity) < oldMs) versions.shift();
    this.#history.set(object.id, versions);
  }

  /** As it was a moment ago. */
  #shown<T extends FakeVolume | FakeSnapshot>(kind: 'snap' | 'vol'): T[] {
    const atMs = performance.now() - this.#random() * this.troubles.lateMs;
    const shown: T[] = [];
    for (const [id, versions] of this.#history) {
      const version = id.startsWith(`${kind}-`) ? versions.findLast((each) => each.atMs <= atMs) : undefined;
      if (version !== undefined) shown.push(version.value as T);
    }
    return shown;
  }
}

function goneVolume(id: string, createdMs: number, zone: string, sizeGiB: number): FakeVolume {
  return {
    ...{ id, createdMs, zone, sizeGiB, status: 'creating', tags: {} },
    ...{ attachment: undefined, modification: undefined, snapshotId: undefined, parameters: {} },
  };
}

function tagsIn(prefix: string, values: Values): Record<string, string> {
  const tags: Record<string, string> = {};
  for (let number = 1; values[`${prefix}.${number}.Key`] !== undefined; number++) {
    tags[values[`${prefix}.${number}.Key`] ?? ''] = values[`${prefix}.${number}.Value`] ?? '';
  }
  return tags;
}

interface Filter {
  readonly name: string;
  readonly value: string;
}

function filtersIn(values: Values): Filter[] {
  const filters: Filter[] = [];
  for (let number = 1; values[`Filter.${number}.Name`] !== undefined; number++) {
    filters.push({ name: values[`Filter.${number}.Name`] ?? '', value: values[`Filter.${number}.Value.1`] ?? '' });
  }
  return filters;
}

function fits(object: FakeVolume | FakeSnapshot, { name, value }: Filter): boolean {
  if (name.startsWith('tag:')) return object.tags[name.slice(4)] === value;
  if (name === 'attachment.instance-id') return 'attachment' in object && object.attachment?.instance === value;
  throw new Refusal('InvalidParameterValue', `The filter '${name}' is invalid`);
}

function answer(action: string, content: string): string {
  return `<${action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId>${content}</${action}Response>`;
}

function list(name: string, items: readonly string[]): string {
  return `<${name}>${items.map((item) => `<item>${item}</item>`).join('')}</${name}>`;
}

function tagSet(tags: Readonly<Record<string, string>>): string {
  return list(
    'tagSet',
    Object.entries(tags).map(([key, value]) => `<key>${xmlText(key)}</key><value>${xmlText(value)}</value>`),
  );
}

function volumeXml({ attachment, createdMs, id, sizeGiB, status, tags, zone }: FakeVolume): string {
  const attachments = attachment === undefined ? [] : [attachmentXml(id, attachment)];
  return `<volumeId>${id}</volumeId><size>${sizeGiB}</size><availabilityZone>${zone}</availabilityZone><status>${status}</status><createTime>${new Date(createdMs).toISOString()}</createTime>${list('attachmentSet', attachments)}${tagSet(tags)}`;
}

function attachmentXml(id: string, { device, instance, sinceMs, status }: FakeAttachment): string {
  return `<volumeId>${id}</volumeId><instanceId>${instance}</instanceId><device>${device}</device><status>${status}</status><attachTime>${new Date(sinceMs).toISOString()}</attachTime>`;
}

function modificationXml({ id, modification, sizeGiB }: FakeVolume): string {
  return `<volumeId>${id}</volumeId><modificationState>${modification?.state}</modificationState><targetSize>${modification?.targetGiB}</targetSize><originalSize>${sizeGiB}</originalSize>`;
}

function snapshotXml({ createdMs, id, sizeGiB, status, tags, volumeId }: FakeSnapshot): string {
  return `<snapshotId>${id}</snapshotId><volumeId>${volumeId}</volumeId><status>${status}</status><startTime>${new Date(createdMs).toISOString()}</startTime><volumeSize>${sizeGiB}</volumeSize>${tagSet(tags)}`;
}

function xmlText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
