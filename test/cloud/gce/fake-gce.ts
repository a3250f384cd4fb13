import { createHash, createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import {
  FakeCloud,
  type FakeRequest,
  type FakeSnapshot,
  type FakeVolume,
  type Problem,
  Refusal,
} from '../fake-cloud.ts';

/*
 * A fake of Compute Engine, written after its REST reference (v1), with the token endpoint and the metadata service of Google. Each
 * change is an operation that goes on after its answer; some refusals come only with its end.
 */

export const fakeProject = 'test-project';
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });

/** A key of the service account that the fake knows, as Google's console writes it. */
export function fakeKeyFile(url: string): object {
  return {
    type: 'service_account',
    project_id: fakeProject,
    private_key_id: 'key-1',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    client_email: 'holdfast@test-project.iam.gserviceaccount.com',
    token_uri: new URL('/token', url).href,
  };
}

interface Operation {
  readonly name: string;
  readonly scope: string;
  readonly type: string;
  readonly target: string;
  isDone: boolean;
  error: { readonly code: string; readonly message: string } | undefined;
}

/** A disk at a machine that is none of the fake's volumes. */
interface ForeignDevice {
  readonly deviceName: string;
  readonly source: string;
}

const pageSize = 20;

export class FakeGce extends FakeCloud {
  readonly volumeLabel = 'holdfast-volume';
  protected readonly contentType = 'application/json; charset=UTF-8';
  /** By machine. */
  readonly foreignDevices = new Map<string, ForeignDevice[]>();
  /** Zones that answer no lists. */
  readonly silentZones = new Set<string>();
  /** Lists have no disks. */
  hideFromLists = false;
  /** Tokens that were given out. Emptied, none of them is valid any more. */
  readonly tokens = new Set<string>();
  /** An attachment begins this long after its operation. */
  attachDelayMs = 0;
  /** The lifetime of tokens. */
  tokenSeconds = 3600;
  readonly #machineNumbers = new Map<string, string>();
  readonly #operations = new Map<string, Operation>();
  readonly #requests = new Map<string, string>();
  #number = 0;

  static async start(random: () => number = Math.random): Promise<FakeGce> {
    return await new FakeGce(random).listen();
  }

  /** Deletes a machine, and makes another one of its name. */
  remake(instance: string): void {
    this.#machineNumbers.set(instance, `${++this.#number}`);
    for (const volume of this.volumesAt(instance)) {
      volume.attachment = undefined;
      volume.status = 'available';
      this.changed(volume);
    }
  }

  protected override refusalOf(code: string, action: string): Refusal {
    if (code !== 'resourceNotReady') return super.refusalOf(code, action);
    return new Refusal(code, `The resource 'projects/${fakeProject}/zones/eu-test-1a/instances/node-1' is not ready`);
  }

  serialOf(volumeId: string): string {
    return lastOf(volumeId);
  }

  protected newVolumeId(zone: string): string {
    return `projects/${fakeProject}/zones/${zone}/disks/disk-${++this.#number}`;
  }

  protected serveMetadata({ headers, method, url = '' }: IncomingMessage, response: ServerResponse): boolean {
    if (!url.startsWith('/computeMetadata/')) return false;
    const [id = `projects/${fakeProject}/zones/eu-test-1a/instances/none`] = this.instances.keys();
    const entries: Record<string, string | undefined> = {
      'project/project-id': fakeProject,
      'instance/zone': `projects/123456/zones/${zoneOf(id)}`,
      'instance/name': lastOf(id),
      'instance/machine-type': 'projects/123456/machineTypes/n2-standard-4',
      'instance/service-accounts/default/token': this.#newToken(),
      ...this.metadata,
    };
    const isAsked = method === 'GET' && headers['metadata-flavor'] === 'Google';
    const found = isAsked ? entries[url.slice('/computeMetadata/v1/'.length)] : undefined;
    response.statusCode = !isAsked ? 403 : found === undefined ? 404 : 200;
    response.setHeader('metadata-flavor', 'Google');
    response.end(found ?? '');
    return true;
  }

  protected actionOf({ message: { method, url = '' } }: FakeRequest): string {
    const path = pathOf(url);
    if (path === 'token') return 'token';
    const [last = ''] = path.split('/').slice(-1);
    if (method === 'DELETE') return 'delete';
    if (method === 'GET') return /\/(disks|snapshots|operations)$/.test(path) ? `list ${last}` : `get ${kindOf(path)}`;
    return last === 'disks' ? 'insert' : last;
  }

  protected requireCredentials({ message: { headers, url = '' } }: FakeRequest): void {
    if (pathOf(url) === 'token') return;
    const [, token = ''] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? [];
    if (!this.tokens.has(token)) throw new Refusal('authError', 'Invalid Credentials', 401);
  }

  protected async act(action: string, { body, message: { url = '' } }: FakeRequest): Promise<string> {
    if (action === 'token') return this.#exchange(new URLSearchParams(body));
    const path = pathOf(url);
    const { searchParams: query } = new URL(url, 'http://fake');
    if (action.startsWith('get ') || action.startsWith('list ')) return JSON.stringify(this.#read(action, path, query));
    const requestId = query.get('requestId') ?? '';
    if (!/^[0-9a-f-]{36}$/.test(requestId)) throw new Refusal('invalid', 'The request id is no UUID');
    const known = this.#operations.get(this.#requests.get(requestId) ?? '');
    const operation = known ?? this.#change(action, path, query, body === '' ? {} : JSON.parse(body));
    this.#requests.set(requestId, operation.name);
    return JSON.stringify(operationJson(operation));
  }

  protected refusal(problem: Problem, subject: string): Refusal {
    switch (problem) {
      case 'throttled':
        return new Refusal('rateLimitExceeded', `Quota exceeded for ${subject} per minute`, 403);
      case 'failed':
        return new Refusal('backendError', 'Backend Error', 503);
      case 'no volume':
      case 'no snapshot':
      case 'no instance':
        return new Refusal('notFound', `The resource '${subject}' was not found`, 404);
      case 'being created':
        return new Refusal('resourceNotReady', `The resource '${subject}' is not ready`);
      case 'in use':
        return new Refusal('resourceInUseByAnotherResource', `The disk resource '${subject}' is already being used`);
      case 'other zone':
        return new Refusal('invalid', `The disk ${subject} is in another zone`);
      case 'full instance':
        return new Refusal('limitExceeded', `Exceeded limit 'maximum_persistent_disks' on resource '${subject}'.`);
      case 'not attached':
      case 'attached elsewhere':
        return new Refusal(
          'invalid',
          `Invalid value for field 'disk': '${lastOf(subject)}'. No attached disk found with device name '${lastOf(subject)}'`,
        );
      case 'changed too often':
        return new Refusal('resourceOperationRateExceeded', 'Operation rate exceeded for resource');
    }
  }

  protected refusalText({ code, message, status }: Refusal): string {
    return JSON.stringify({ error: { code: status, message, errors: [{ domain: 'global', reason: code, message }] } });
  }

  /** The token endpoint of OAuth: the claims are signed with the key of the file. */
  #exchange(values: URLSearchParams): string {
    const [header = '', claims = '', signature = ''] = (values.get('assertion') ?? '').split('.');
    const isSigned = verify(
      'sha256',
      Buffer.from(`${header}.${claims}`),
      createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })),
      Buffer.from(signature, 'base64url'),
    );
    if (!isSigned) throw new Refusal('invalid_grant', 'Invalid JWT Signature.');
    return this.#newToken();
  }

  #newToken(): string {
    const token = `token-${++this.#number}`;
    this.tokens.add(token);
    return JSON.stringify({ access_token: token, expires_in: this.tokenSeconds, token_type: 'Bearer' });
  }

  #read(action: string, path: string, query: URLSearchParams): object {
    switch (action) {
      case 'get disks': {
        const found = this.#shownDisks().find(({ id }) => id === path);
        if (found === undefined) throw this.refusal('no volume', path);
        return this.#diskJson(found);
      }
      case 'get instances':
        return this.#instanceJson(path);
      case 'get snapshots': {
        const found = this.shownSnapshots().find(({ id }) => id === path);
        if (found === undefined) throw this.refusal('no snapshot', path);
        return snapshotJson(found);
      }
      case 'get operations': {
        const operation = this.#operations.get(lastOf(path));
        if (operation === undefined) throw new Refusal('notFound', 'no such operation', 404);
        return operationJson(operation);
      }
      case 'list disks':
        return this.#diskPage(query);
      case 'list snapshots':
        return this.#page(query, this.shownSnapshots().filter(fits(query)), (items) => ({
          items: items.map(snapshotJson),
        }));
      case 'list operations':
        return {
          items: [...this.#operations.values()]
            .filter(
              ({ isDone, scope, type }) => path.startsWith(scope) && !isDone && query.get('filter')?.includes(type),
            )
            .map(operationJson),
        };
      default:
        throw new Refusal('notFound', `${action} is not there`, 404);
    }
  }

  #change(action: string, path: string, query: URLSearchParams, body: Record<string, unknown>): Operation {
    const owner = path.slice(0, path.lastIndexOf('/'));
    switch (action) {
      case 'insert':
        return this.#insert(owner, body);
      case 'delete':
        return path.includes('/snapshots/') ? this.#deleteSnapshot(path) : this.#deleteDisk(path);
      case 'setLabels':
        return this.#setLabels(owner, body);
      case 'resize':
        if (Number(body['sizeGb']) <= this.requireVolume(owner).sizeGiB) {
          throw new Refusal('invalid', `Invalid value for field 'sizeGb': it must be larger than the current size`);
        }
        return this.#operation(action, owner, this.resize(owner, Number(body['sizeGb'])));
      case 'createSnapshot':
        return this.#createSnapshot(owner, body);
      case 'attachDisk':
        return this.#attach(owner, body);
      case 'detachDisk':
        return this.#detach(owner, query.get('deviceName') ?? '');
      default:
        throw new Refusal('notFound', `${action} is not there`, 404);
    }
  }

  #insert(place: string, body: Record<string, unknown>): Operation {
    const zone = lastOf(place);
    const {
      labels = {},
      name,
      sizeGb,
      sourceSnapshot: snapshotId,
      type,
    } = body as Record<string, string> & {
      labels?: Record<string, string>;
    };
    if (!zone.startsWith('eu-test-1')) throw new Refusal('invalid', `Unknown zone '${zone}'`);
    const id = `${place}/disks/${name}`;
    if (this.volumes.has(id)) throw new Refusal('alreadyExists', `The resource '${id}' already exists`, 409);
    requireLabels(labels);
    const snapshot = snapshotId === undefined ? undefined : this.snapshots.get(snapshotId);
    if (snapshotId !== undefined && snapshot === undefined) throw this.refusal('no snapshot', snapshotId);
    if (snapshot?.status === 'pending') throw this.refusal('being created', snapshot.id);
    if (snapshot !== undefined && Number(sizeGb) < snapshot.sizeGiB) {
      throw new Refusal('invalid', `Requested disk size cannot be smaller than the snapshot size`);
    }
    const { kmsKeyName: key = '' } = (body['diskEncryptionKey'] ?? {}) as Record<string, string>;
    if (this.forbiddenKeys.has(key)) {
      const error = { code: 'PERMISSIONS_ERROR', message: 'Cloud KMS error when using key' };
      return this.#operation(
        'insert',
        id,
        this.later(() => undefined),
        error,
      );
    }
    const parameters = { type: lastOf(type ?? ''), iops: `${body['provisionedIops'] ?? ''}`, key };
    this.newVolume({ id, sizeGiB: Number(sizeGb), zone, snapshotId, tags: labels, parameters });
    return this.#operation(
      'insert',
      id,
      this.later(() => undefined),
    );
  }

  #deleteDisk(id: string): Operation {
    const volume = this.requireDeletable(id);
    volume.status = 'deleting';
    this.changed(volume);
    return this.#operation(
      'delete',
      id,
      this.later(() => this.forgetVolume(volume)),
    );
  }

  #setLabels(id: string, body: Record<string, unknown>): Operation {
    const volume = this.requireVolume(id);
    const labels = body['labels'] as Record<string, string>;
    if (body['labelFingerprint'] !== this.#fingerprintOf(volume)) {
      throw new Refusal('conditionNotMet', 'Labels fingerprint either invalid or resource labels have changed', 412);
    }
    requireLabels(labels);
    this.setTags(id, labels);
    return this.#operation(
      'setLabels',
      id,
      this.later(() => undefined),
    );
  }

  #createSnapshot(disk: string, body: Record<string, unknown>): Operation {
    const id = `projects/${fakeProject}/global/snapshots/${body['name'] as string}`;
    if (this.snapshots.has(id)) throw new Refusal('alreadyExists', `The resource '${id}' already exists`, 409);
    const labels = body['labels'] as Record<string, string>;
    requireLabels(labels);
    this.takeSnapshot(id, disk, labels);
    return this.#operation(
      'createSnapshot',
      disk,
      this.later(() => undefined),
    );
  }

  #deleteSnapshot(id: string): Operation {
    this.forgetSnapshot(id);
    return this.#operation(
      'delete',
      id,
      this.later(() => undefined),
    );
  }

  #attach(instance: string, body: Record<string, unknown>): Operation {
    const { deviceName = '', source = '' } = body as Record<string, string>;
    if (body['autoDelete'] !== false) throw new Refusal('invalid', 'this disk would go with its machine');
    if (this.#devicesAt(instance).some((each) => each.deviceName === deviceName && each.source !== source)) {
      throw new Refusal('invalid', `Invalid value for field 'deviceName': '${deviceName}' is used by another disk`);
    }
    if (this.attachDelayMs > 0) {
      const work = delay(this.attachDelayMs).then(() => this.attachVolume(source, instance, deviceName));
      return this.#operation('attachDisk', instance, work);
    }
    try {
      return this.#operation('attachDisk', instance, this.attachVolume(source, instance, deviceName));
    } catch (error) {
      // This one comes at the end.
      if (!(error instanceof Refusal) || error.code !== 'limitExceeded') throw error;
      const { message } = error;
      return this.#operation(
        'attachDisk',
        instance,
        this.later(() => undefined),
        { code: 'LIMIT_EXCEEDED', message },
      );
    }
  }

  #detach(instance: string, deviceName: string): Operation {
    if (!this.instances.has(instance)) throw this.refusal('no instance', instance);
    const devices = this.foreignDevices.get(instance) ?? [];
    const foreign = devices.find((each) => each.deviceName === deviceName);
    if (foreign !== undefined) {
      this.foreignDevices.set(
        instance,
        devices.filter((each) => each !== foreign),
      );
      return this.#operation(
        'detachDisk',
        instance,
        this.later(() => undefined),
      );
    }
    const volume = this.volumesAt(instance).find((each) => each.attachment?.device === deviceName);
    if (volume === undefined) throw this.refusal('not attached', deviceName);
    return this.#operation('detachDisk', instance, this.detachVolume(volume.id, instance));
  }

  #operation(type: string, target: string, work: Promise<void>, error?: Operation['error']): Operation {
    const scope = /^projects\/[^/]+\/(zones\/[^/]+|global)/.exec(target)?.[0] ?? '';
    const operation: Operation = {
      ...{ name: `operation-${++this.#number}`, scope, type, target, isDone: false, error: undefined },
    };
    this.#operations.set(operation.name, operation);
    void work.then(() => {
      operation.error = error;
      operation.isDone = true;
    });
    return operation;
  }

  #diskPage(query: URLSearchParams): object {
    const disks = this.hideFromLists ? [] : this.#shownDisks().filter(fits(query));
    return this.#page(query, disks, (found) => {
      const items: Record<string, object> = { 'zones/eu-test-1c': { warning: { code: 'NO_RESULTS_ON_PAGE' } } };
      for (const zone of new Set(found.map((each) => each.zone))) {
        items[`zones/${zone}`] = {
          disks: found.filter((each) => each.zone === zone).map((each) => this.#diskJson(each)),
        };
      }
      for (const zone of this.silentZones) items[`zones/${zone}`] = { warning: { code: 'UNREACHABLE' } };
      return { items };
    });
  }

  #page<T>(query: URLSearchParams, all: readonly T[], shown: (items: readonly T[]) => object): object {
    const start = Number(query.get('pageToken') ?? 0);
    const next = all.length > start + pageSize ? { nextPageToken: `${start + pageSize}` } : {};
    return { ...shown(all.slice(start, start + pageSize)), ...next };
  }

  #shownDisks(): FakeVolume[] {
    return this.shownVolumes().filter(({ status }) => status !== 'deleted');
  }

  /** Another one after each change of the labels. */
  #fingerprintOf({ id, tags }: FakeVolume): string {
    const print = createHash('sha256')
      .update(`${id}${JSON.stringify(tags)}`)
      .digest('base64')
      .slice(0, 11);
    return `${print}=`;
  }

  #diskJson(volume: FakeVolume): object {
    const { attachment, createdMs, id, lastAttachedMs, sizeGiB, status, tags } = volume;
    const states: Partial<Record<FakeVolume['status'], string>> = {
      creating: 'CREATING',
      error: 'FAILED',
      deleting: 'DELETING',
    };
    const isUsed = attachment !== undefined && attachment.status !== 'attaching';
    return {
      kind: 'compute#disk',
      name: lastOf(id),
      selfLink: linkOf(id),
      status: states[status] ?? 'READY',
      sizeGb: `${sizeGiB}`,
      creationTimestamp: new Date(createdMs).toISOString(),
      labels: tags,
      labelFingerprint: this.#fingerprintOf(volume),
      ...(isUsed ? { users: [linkOf(attachment.instance)] } : {}),
      ...(lastAttachedMs === undefined ? {} : { lastAttachTimestamp: new Date(lastAttachedMs).toISOString() }),
    };
  }

  #devicesAt(instance: string): ForeignDevice[] {
    const own = this.volumesAt(instance).map(({ attachment, id }) => ({
      deviceName: attachment?.device ?? '',
      source: id,
    }));
    return [...own, ...(this.foreignDevices.get(instance) ?? [])];
  }

  #instanceJson(id: string): object {
    if (!this.instances.has(id)) throw this.refusal('no instance', id);
    const boot = { source: linkOf(`projects/${fakeProject}/zones/${zoneOf(id)}/disks/boot`), deviceName: 'boot' };
    const disks = [
      boot,
      ...this.#devicesAt(id).map(({ deviceName, source }) => ({ deviceName, source: linkOf(source) })),
    ];
    return {
      kind: 'compute#instance',
      id: this.#machineNumbers.get(id) ?? '1001',
      name: lastOf(id),
      selfLink: linkOf(id),
      status: 'RUNNING',
      disks,
    };
  }
}

function requireLabels(labels: Readonly<Record<string, string>>): void {
  const isForm = Object.entries(labels).every(
    ([key, value]) => /^[a-z][-_a-z0-9]{0,62}$/.test(key) && /^[-_a-z0-9]{0,63}$/.test(value),
  );
  if (!isForm) throw new Refusal('invalid', `Invalid value for field 'labels'`);
  if (Object.keys(labels).length > 64) throw new Refusal('invalid', 'Too many labels');
}

/** The filters that the driver uses: `(labels.a = "b") AND (labels.c = "d")`. */
function fits(query: URLSearchParams): (object: FakeVolume | FakeSnapshot) => boolean {
  const filter = query.get('filter') ?? '';
  const wanted = [...filter.matchAll(/\(labels\.([-_a-z0-9]+) = "([-_a-z0-9]*)"\)/g)];
  if (filter !== wanted.map(([whole]) => whole).join(' AND ')) throw new Refusal('invalid', `Invalid filter ${filter}`);
  return ({ tags }) => wanted.every(([, key = '', value]) => tags[key] === value);
}

function operationJson({ error, isDone, name, scope, target, type }: Operation): object {
  return {
    ...{ kind: 'compute#operation', name, selfLink: linkOf(`${scope}/operations/${name}`), operationType: type },
    ...{ targetLink: linkOf(target), status: isDone ? 'DONE' : 'RUNNING' },
    ...(error === undefined ? {} : { error: { errors: [error] }, httpErrorStatusCode: 403 }),
  };
}

function snapshotJson({ createdMs, id, status, tags, volumeId }: FakeSnapshot): object {
  const states = { pending: 'UPLOADING', completed: 'READY', error: 'FAILED' } as const;
  return {
    ...{ kind: 'compute#snapshot', name: lastOf(id), selfLink: linkOf(id), status: states[status], labels: tags },
    ...{ creationTimestamp: new Date(createdMs).toISOString(), sourceDisk: linkOf(volumeId) },
  };
}

const linkOf = (path: string) => `https://www.googleapis.com/compute/v1/${path}`;
const lastOf = (path: string) => path.slice(path.lastIndexOf('/') + 1);
const zoneOf = (path: string) => /\/zones\/([^/]+)/.exec(path)?.[1] ?? '';
const kindOf = (path: string) => path.split('/').at(-2) ?? '';

function pathOf(url: string): string {
  return decodeURIComponent(new URL(url, 'http://fake').pathname).replace(/^\/(compute\/v1\/)?/, '');
}
