import { createHash, createHmac } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  FakeCloud,
  type FakeRequest,
  type FakeSnapshot,
  type FakeVolume,
  type Problem,
  Refusal,
} from '../fake-cloud.ts';

/*
 * A fake of EC2, written after its API reference (2016-11-15), with what hurts drivers there: device names that are taken, attachments
 * that never end.
 */

type Values = Readonly<Record<string, string>>;

export const fakeKey = { accessKeyId: 'AKIAFAKE', secretAccessKey: 'fake-secret' } as const;

export class FakeEc2 extends FakeCloud {
  /** Names that stay in use in a machine: `i-1 /dev/xvdaa`. */
  readonly stuckNames = new Set<string>();
  readonly volumeLabel = 'holdfast.dev/volume';
  protected readonly contentType = 'text/xml;charset=UTF-8';
  readonly #tokens = new Map<string, { readonly print: string; readonly id: string; readonly createdMs: number }>();
  #number = 0;

  static async start(random: () => number = Math.random): Promise<FakeEc2> {
    return await new FakeEc2(random).listen();
  }

  serialOf(volumeId: string): string {
    return volumeId.replace('-', '');
  }

  protected newVolumeId(): string {
    return this.#newId('vol');
  }

  protected actionOf({ body }: FakeRequest): string {
    return new URLSearchParams(body).get('Action') ?? '';
  }

  protected refusal(problem: Problem, subject: string): Refusal {
    switch (problem) {
      case 'throttled':
        return new Refusal('RequestLimitExceeded', 'Request limit exceeded.', 503);
      case 'failed':
        return new Refusal('InternalError', 'An internal error has occurred', 500);
      case 'no volume':
        return new Refusal('InvalidVolume.NotFound', `The volume '${subject}' does not exist.`);
      case 'no snapshot':
        return new Refusal('InvalidSnapshot.NotFound', `The snapshot '${subject}' does not exist.`);
      case 'no instance':
        return new Refusal('InvalidInstanceID.NotFound', `The instance ID '${subject}' does not exist`);
      case 'being created':
        return new Refusal('IncorrectState', `Volume '${subject}' is not 'available'.`);
      case 'in use':
        return new Refusal('VolumeInUse', `${subject} is already attached to an instance`);
      case 'other zone':
        return new Refusal('InvalidVolume.ZoneMismatch', `${subject} is in another zone`);
      case 'full instance':
        return new Refusal('AttachmentLimitExceeded', 'Volume attachment limit exceeded');
      case 'not attached':
        return new Refusal('IncorrectState', `Volume '${subject}' is in the 'available' state.`);
      case 'attached elsewhere':
        return new Refusal('InvalidAttachment.NotFound', `Volume ${subject} is not attached to this instance`);
      case 'changed too often':
        return new Refusal(
          'VolumeModificationRateExceeded',
          'You have reached the maximum modification rate per volume limit.',
        );
    }
  }

  protected refusalText({ code, message }: Refusal): string {
    return xml(
      `<Response><Errors><Error><Code>${code}</Code><Message>${xmlText(message)}</Message></Error></Errors><RequestID>1</RequestID></Response>`,
    );
  }

  /** The metadata service of the first machine, in version 2 alone. */
  protected serveMetadata({ headers, method, url = '' }: IncomingMessage, response: ServerResponse): boolean {
    if (!url.startsWith('/latest/')) return false;
    const [id = 'i-0', { zone } = { zone: 'eu-test-1a' }] = [...this.instances][0] ?? [];
    const entries: Record<string, string | undefined> = {
      'meta-data/instance-id': id,
      'meta-data/placement/availability-zone': zone,
      'meta-data/placement/region': zone.slice(0, -1),
      'meta-data/network/interfaces/macs/': '02:00:00:00:00:01/\n02:00:00:00:00:02/',
      'meta-data/block-device-mapping/': 'ami\nroot\nephemeral0',
      ...this.metadata,
    };
    if (method === 'PUT') {
      response.end('token');
      return true;
    }
    const found = headers['x-aws-ec2-metadata-token'] === 'token' ? entries[url.slice('/latest/'.length)] : undefined;
    response.statusCode = headers['x-aws-ec2-metadata-token'] !== 'token' ? 401 : found === undefined ? 404 : 200;
    response.end(found ?? '');
    return true;
  }

  /** Signature Version 4, computed here from AWS's description. */
  protected requireCredentials({ body, message }: FakeRequest): void {
    const { headers, method = '', url = '' } = message;
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

  protected async act(action: string, { body }: FakeRequest): Promise<string> {
    const values = Object.fromEntries(new URLSearchParams(body));
    switch (action) {
      case 'CreateVolume':
        return answer(action, volumeXml(this.#createVolume(values)));
      case 'DeleteVolume':
        this.forgetVolume(this.requireDeletable(values['VolumeId'] ?? ''));
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
        this.forgetSnapshot(values['SnapshotId'] ?? '');
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
    if (snapshotId !== undefined && snapshot === undefined) throw this.refusal('no snapshot', snapshotId);
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
    const volume = this.newVolume({
      id: this.#newId('vol'),
      sizeGiB: Number(Size),
      zone,
      snapshotId,
      tags,
      parameters,
    });
    if (token !== undefined) this.#tokens.set(token, { print, id: volume.id, createdMs: volume.createdMs });
    return volume;
  }

  #describeVolumes(values: Values): FakeVolume[] {
    const shown = this.shownVolumes().filter(({ status }) => status !== 'deleted');
    const id = values['VolumeId.1'];
    if (id === undefined) return shown.filter((volume) => filtersIn(values).every((filter) => fits(volume, filter)));
    const volume = shown.find((each) => each.id === id);
    if (volume === undefined) throw this.refusal('no volume', id);
    return [volume];
  }

  #createTags(values: Values): void {
    const volume = this.requireVolume(values['ResourceId.1'] ?? '');
    const tags = { ...volume.tags, ...tagsIn('Tag', values) };
    if (Object.keys(tags).length > 50) throw new Refusal('TagLimitExceeded', 'more than 50 tags');
    this.setTags(volume.id, tags);
  }

  #attach(values: Values): string {
    const { Device: device = '', InstanceId: instance = '', VolumeId: id = '' } = values;
    const isNew = this.requireVolume(id).attachment === undefined;
    if (isNew && this.volumesAt(instance).some((each) => each.attachment?.device === device)) {
      throw new Refusal(
        'InvalidParameterValue',
        `Invalid value '${device}' for unixDevice. Attachment point ${device} is already in use`,
      );
    }
    void this.attachVolume(id, instance, device, this.stuckNames.has(`${instance} ${device}`));
    return 'attaching';
  }

  #detach(values: Values): string {
    void this.detachVolume(values['VolumeId'] ?? '', values['InstanceId'] ?? '');
    return 'detaching';
  }

  #describeInstances(values: Values): string {
    const id = values['InstanceId.1'] ?? '';
    if (!this.instances.has(id)) throw this.refusal('no instance', id);
    const attached = this.volumesAt(id).filter(({ attachment }) => attachment?.status === 'attached');
    const devices = attached.map(({ attachment }) => `<deviceName>${attachment?.device}</deviceName>`);
    const instance = `<instanceId>${id}</instanceId><instanceState><name>running</name></instanceState>${list('blockDeviceMapping', devices)}`;
    return list('reservationSet', [list('instancesSet', [instance])]);
  }

  #modify(values: Values): string {
    const volume = this.requireVolume(values['VolumeId'] ?? '');
    if (volume.modification?.state === 'optimizing') throw this.refusal('changed too often', volume.id);
    void this.resize(volume.id, Number(values['Size']));
    return modificationXml(volume);
  }

  #modification(values: Values): string {
    const volume = this.requireVolume(values['VolumeId.1'] ?? '');
    if (volume.modification === undefined) {
      throw new Refusal('InvalidVolumeModification.NotFound', `Modification for volume '${volume.id}' does not exist.`);
    }
    return modificationXml(volume);
  }

  #createSnapshot(values: Values): FakeSnapshot {
    return this.takeSnapshot(this.#newId('snap'), values['VolumeId'] ?? '', tagsIn('TagSpecification.1.Tag', values));
  }

  #describeSnapshots(values: Values): FakeSnapshot[] {
    return this.shownSnapshots().filter((each) => filtersIn(values).every((filter) => fits(each, filter)));
  }

  #newId(kind: 'snap' | 'vol'): string {
    return `${kind}-${(++this.#number).toString(16).padStart(17, '0')}`;
  }
}

function goneVolume(id: string, createdMs: number, zone: string, sizeGiB: number): FakeVolume {
  return {
    ...{ id, createdMs, zone, sizeGiB, status: 'creating', tags: {} },
    ...{ attachment: undefined, modification: undefined, snapshotId: undefined, parameters: {} },
    lastAttachedMs: undefined,
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
  return xml(
    `<${action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId>${content}</${action}Response>`,
  );
}

function xml(text: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${text}`;
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

function attachmentXml(
  id: string,
  { device, instance, sinceMs, status }: NonNullable<FakeVolume['attachment']>,
): string {
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
