import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/*
 * The common part of fakes of clouds: a server on the loopback device that has disks, machines and snapshots, with what hurts drivers:
 * answers that are lost, requests that are refused for their number, lists that are late, attachments that never end. A fake of one
 * cloud adds its protocol.
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
  status: 'creating' | 'available' | 'in-use' | 'error' | 'deleting' | 'deleted';
  tags: Record<string, string>;
  attachment: FakeAttachment | undefined;
  /** The start of its last attachment; undefined: it was never attached. */
  lastAttachedMs: number | undefined;
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

export interface FakeInstance {
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

/** A request that the cloud refuses, in the words of its protocol. */
export class Refusal extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** The refusals that all clouds have. */
export type Problem =
  | 'throttled'
  | 'failed'
  | 'no volume'
  | 'no snapshot'
  | 'no instance'
  | 'being created'
  | 'in use'
  | 'other zone'
  | 'full instance'
  | 'not attached'
  | 'attached elsewhere'
  | 'changed too often';

/** A request of the protocol. */
export interface FakeRequest {
  readonly message: IncomingMessage;
  readonly body: string;
}

/** How an object was at its last changes. */
interface Version<T> {
  readonly atMs: number;
  readonly value: T;
}

export abstract class FakeCloud implements AsyncDisposable {
  readonly volumes = new Map<string, FakeVolume>();
  readonly snapshots = new Map<string, FakeSnapshot>();
  readonly instances = new Map<string, FakeInstance>();
  /** Machines from which nothing detaches: their system hangs. */
  readonly hungInstances = new Set<string>();
  /** Each request that was carried out. */
  readonly calls: { readonly action: string }[] = [];
  troubles: FakeTroubles = { ...untroubled };
  plugs: Plugs = {};
  /** Keys that may not be used: volumes with them are not made. */
  readonly forbiddenKeys = new Set<string>();
  modificationsRefused = false;
  /** More of what the metadata service says. */
  metadata: Record<string, string> = {};
  protected readonly random: () => number;
  readonly #server: Server;
  readonly #history = new Map<string, Version<FakeVolume | FakeSnapshot>[]>();
  readonly #pending = new Set<Promise<void>>();
  readonly #losing = new Set<string>();
  readonly #refusing = new Map<string, string>();
  /** What looks show of these stays. */
  readonly #frozen = new Set<string>();

  constructor(random: () => number) {
    this.random = random;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  /** The label that says of which volume a disk is. */
  abstract readonly volumeLabel: string;
  /** The serial number of a volume's device. */
  abstract serialOf(volumeId: string): string;
  /** True if the request is for the machine's own metadata service; it is answered then. */
  protected abstract serveMetadata(request: IncomingMessage, response: ServerResponse): boolean;
  protected abstract actionOf(request: FakeRequest): string;
  /** @throws Refusal */
  protected abstract requireCredentials(request: FakeRequest): void;
  /** @throws Refusal */
  protected abstract act(action: string, request: FakeRequest): Promise<string>;
  protected abstract refusal(problem: Problem, subject: string): Refusal;
  protected refusalOf(code: string, action: string): Refusal {
    return new Refusal(code, `${action} is refused`);
  }
  protected abstract refusalText(refusal: Refusal): string;
  protected abstract readonly contentType: string;
  protected abstract newVolumeId(zone: string): string;

  instance(id: string, { maxVolumes = 26, zone = 'eu-test-1a' }: Partial<FakeInstance> = {}): string {
    this.instances.set(id, { zone, maxVolumes });
    return id;
  }

  /** Changes tags by hand. */
  async retag(id: string, tags: Record<string, string>): Promise<void> {
    const volume = this.requireVolume(id);
    this.setTags(id, { ...volume.tags, ...tags });
  }

  fail(id: string): void {
    const volume = this.requireVolume(id);
    volume.status = 'error';
    this.changed(volume);
  }

  setTags(id: string, tags: Record<string, string>): void {
    const volume = this.requireVolume(id);
    volume.tags = tags;
    this.changed(volume);
  }

  deleteByHand(id: string): void {
    this.forgetVolume(this.requireVolume(id));
  }

  /** From now on looks at the volumes with this id show them without an attachment. */
  showDetached(volumeId: string): void {
    for (const volume of this.#volumesOf(volumeId)) {
      this.#show(volume.id, { ...volume, status: 'available', attachment: undefined });
    }
  }

  /** From now on looks show the volumes with this id without a label, until `thaw`. */
  hideLabel(volumeId: string, name: string): void {
    for (const volume of this.#volumesOf(volumeId)) {
      const { [name]: _, ...tags } = volume.tags;
      this.#show(volume.id, { ...volume, tags });
    }
  }

  /** From now on looks show none of the volumes with this id, until `thaw`. */
  showNothing(volumeId: string): void {
    for (const { id } of this.#volumesOf(volumeId)) {
      this.#history.set(id, []);
      this.#frozen.add(id);
    }
  }

  /** @returns has looks show the volumes with this id as they are now, until `thaw` */
  picture(volumeId: string): () => void {
    const copies = this.#volumesOf(volumeId).map(copyOf);
    return () => {
      for (const copy of copies) this.#show(copy.id, copy);
    };
  }

  /** Looks show the volumes as they are again. */
  thaw(): void {
    for (const id of this.#frozen) {
      const volume = this.volumes.get(id);
      this.#frozen.delete(id);
      if (volume !== undefined) this.#history.set(id, [{ atMs: 0, value: copyOf(volume) }]);
    }
  }

  attachByHand(id: string, instance: string, device: string): void {
    void this.attachVolume(id, instance, device);
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
  foreignVolume(tags: Record<string, string> = {}, sizeGiB = 1, id?: string): FakeVolume {
    const zone = 'eu-test-1a';
    return this.newVolume({
      id: id ?? this.newVolumeId(zone),
      sizeGiB,
      zone,
      snapshotId: undefined,
      tags,
      parameters: {},
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.settled();
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.serveMetadata(message, response)) return;
    const chunks: Buffer[] = [];
    for await (const chunk of message) chunks.push(chunk);
    const request = { message, body: Buffer.concat(chunks).toString() };
    const action = this.actionOf(request);
    const { droppedRequests, failed, lostAnswers, throttled } = this.troubles;
    if (this.random() < droppedRequests) return void message.socket.destroy();
    let status = 200;
    let text: string;
    try {
      this.requireCredentials(request);
      if (this.random() < throttled) throw this.refusal('throttled', action);
      if (this.random() < failed / 2) throw this.refusal('failed', action);
      const code = this.#refusing.get(action);
      this.#refusing.delete(action);
      if (code !== undefined) throw this.refusalOf(code, action);
      text = await this.act(action, request);
      this.calls.push({ action });
      if (this.random() < failed / 2) throw this.refusal('failed', action);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      status = error.status;
      text = this.refusalText(error);
    }
    if (this.#losing.delete(action) || this.random() < lostAnswers) return void message.socket.destroy();
    response.writeHead(status, { 'content-type': this.contentType });
    response.end(text);
  }

  protected newVolume(
    made: Pick<FakeVolume, 'id' | 'parameters' | 'sizeGiB' | 'snapshotId' | 'tags' | 'zone'>,
  ): FakeVolume {
    const volume: FakeVolume = {
      ...made,
      ...{ createdMs: Date.now(), status: 'creating', attachment: undefined, modification: undefined },
      lastAttachedMs: undefined,
    };
    this.volumes.set(volume.id, volume);
    this.plugs.created?.(volume);
    this.later(() => {
      if (this.forbiddenKeys.has(volume.parameters['key'] ?? '')) this.forgetVolume(volume);
      else volume.status = 'available';
      this.changed(volume);
    });
    this.changed(volume);
    return volume;
  }

  protected requireDeletable(id: string): FakeVolume {
    const volume = this.requireVolume(id);
    if (volume.attachment !== undefined) throw this.refusal('in use', id);
    if (volume.status === 'creating') throw this.refusal('being created', id);
    return volume;
  }

  protected forgetVolume(volume: FakeVolume): void {
    volume.status = 'deleted';
    this.volumes.delete(volume.id);
    this.plugs.deleted?.(volume);
    this.changed(volume);
  }

  protected requireVolume(id: string): FakeVolume {
    const volume = this.volumes.get(id);
    if (volume === undefined) throw this.refusal('no volume', id);
    return volume;
  }

  /** @param isStuck it stays at its beginning @returns resolves when it is attached */
  protected attachVolume(id: string, instance: string, device: string, isStuck = false): Promise<void> {
    const machine = this.instances.get(instance);
    const volume = this.requireVolume(id);
    if (machine === undefined) throw this.refusal('no instance', instance);
    if (machine.zone !== volume.zone) throw this.refusal('other zone', id);
    if (volume.attachment !== undefined) throw this.refusal('in use', id);
    if (volume.status !== 'available') throw this.refusal('being created', id);
    if (this.volumesAt(instance).length >= machine.maxVolumes) throw this.refusal('full instance', instance);
    const attachment: FakeAttachment = { instance, device, status: 'attaching', sinceMs: Date.now() };
    volume.attachment = attachment;
    volume.lastAttachedMs = attachment.sinceMs;
    volume.status = 'in-use';
    this.changed(volume);
    if (isStuck) return Promise.resolve();
    return this.later(async () => {
      if (volume.attachment !== attachment || attachment.status !== 'attaching') return;
      await this.plugs.plug?.(volume, instance);
      attachment.status = 'attached';
      this.changed(volume);
    });
  }

  /** @returns resolves when it is detached */
  protected detachVolume(id: string, instance: string): Promise<void> {
    const volume = this.requireVolume(id);
    const { attachment } = volume;
    if (attachment === undefined) throw this.refusal('not attached', id);
    if (attachment.instance !== instance) throw this.refusal('attached elsewhere', id);
    if (attachment.status === 'detaching') return Promise.resolve();
    const wasAttached = attachment.status === 'attached';
    attachment.status = 'detaching';
    this.changed(volume);
    if (this.hungInstances.has(instance)) return new Promise(() => undefined);
    return this.later(async () => {
      if (wasAttached) await this.plugs.unplug?.(volume, instance);
      volume.attachment = undefined;
      volume.status = 'available';
      this.changed(volume);
    });
  }

  protected volumesAt(instance: string): FakeVolume[] {
    return [...this.volumes.values()].filter(({ attachment }) => attachment?.instance === instance);
  }

  /** @returns resolves when it has the size */
  protected resize(id: string, targetGiB: number): Promise<void> {
    const volume = this.requireVolume(id);
    if (this.modificationsRefused) throw this.refusal('changed too often', id);
    const modification: NonNullable<FakeVolume['modification']> = { targetGiB, state: 'modifying' };
    volume.modification = modification;
    return this.later(async () => {
      volume.sizeGiB = targetGiB;
      await this.plugs.resized?.(volume);
      modification.state = 'optimizing';
      this.changed(volume);
    });
  }

  protected takeSnapshot(id: string, volumeId: string, tags: Record<string, string>): FakeSnapshot {
    const volume = this.requireVolume(volumeId);
    const snapshot: FakeSnapshot = {
      ...{ id, volumeId: volume.id, sizeGiB: volume.sizeGiB, createdMs: Date.now(), status: 'pending', tags },
    };
    this.snapshots.set(snapshot.id, snapshot);
    this.plugs.snapshotTaken?.(snapshot);
    this.later(() => {
      snapshot.status = 'completed';
      this.changed(snapshot);
    });
    this.changed(snapshot);
    return snapshot;
  }

  protected forgetSnapshot(id: string): void {
    if (!this.snapshots.delete(id)) throw this.refusal('no snapshot', id);
    this.#history.delete(id);
  }

  protected later(work: () => Promise<void> | void): Promise<void> {
    const { workMs } = this.troubles;
    const pending = new Promise<void>((resolve) => {
      setTimeout(resolve, workMs * (0.5 + this.random()));
    }).then(work);
    const ended = pending.finally(() => this.#pending.delete(ended));
    this.#pending.add(ended);
    return ended;
  }

  protected changed(object: FakeVolume | FakeSnapshot): void {
    if (this.#frozen.has(object.id)) return;
    const versions = this.#history.get(object.id) ?? [];
    versions.push({ atMs: performance.now(), value: copyOf(object) });
    // A test may have looks be late only from a later time on.
    const oldMs = performance.now() - Math.max(this.troubles.lateMs, 2_000);
    while ((versions[1]?.atMs ?? Infinity) < oldMs) versions.shift();
    this.#history.set(object.id, versions);
  }

  /** The volumes as they were a moment ago. */
  protected shownVolumes(): FakeVolume[] {
    return this.#shown().flatMap((object) => ('sizeGiB' in object && 'parameters' in object ? [object] : []));
  }

  protected shownSnapshots(): FakeSnapshot[] {
    return this.#shown().flatMap((object) => ('volumeId' in object ? [object] : []));
  }

  #shown(): (FakeVolume | FakeSnapshot)[] {
    const atMs = performance.now() - this.random() * this.troubles.lateMs;
    return [...this.#history.values()].flatMap(
      (versions) => versions.findLast((each) => each.atMs <= atMs)?.value ?? [],
    );
  }

  #show(id: string, value: FakeVolume): void {
    this.#history.set(id, [{ atMs: 0, value }]);
    this.#frozen.add(id);
  }

  #volumesOf(volumeId: string): FakeVolume[] {
    return [...this.volumes.values()].filter(({ tags }) => tags[this.volumeLabel] === volumeId);
  }
}

function copyOf<T extends FakeVolume | FakeSnapshot>(object: T): T {
  const attachment = 'attachment' in object && object.attachment ? { attachment: { ...object.attachment } } : {};
  return { ...object, tags: { ...object.tags }, ...attachment };
}
