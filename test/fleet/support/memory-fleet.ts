import { pino } from 'pino';
import { callsOf } from '../../../src/csi/call.ts';
import { decode, encode, type Method, methodsOf } from '../../../src/csi/contract.ts';
import type { Reply } from '../../../src/csi/pipeline.ts';
import { fleetCalls } from '../../../src/fleet/controller/calls.ts';
import { FleetCapacity } from '../../../src/fleet/controller/capacity.ts';
import { EndedIds } from '../../../src/fleet/controller/ended.ts';
import { FleetState } from '../../../src/fleet/controller/fleet-state.ts';
import { NodeSession } from '../../../src/fleet/controller/node-session.ts';
import { Sessions } from '../../../src/fleet/controller/sessions.ts';
import type { RecordedVolume } from '../../../src/fleet/kubernetes/persistent-volumes.ts';
import { NodeLink } from '../../../src/fleet/node/node-link.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { NotFound } from '../../../src/volume/errors.ts';
import { parseSnapshotId, parseVolumeId, snapshotIdFor, volumeIdFor } from '../../../src/volume/id.ts';
import type { VolumeRecord } from '../../../src/volume/record.ts';
import type { SnapshotRecord } from '../../../src/volume/snapshot-record.ts';
import { type Faults, MemoryLink } from './memory-link.ts';

/*
 * Links without a network, for what goes wrong on the way of messages: the nodes' volumes are names in memory, as what is
 * tested is who hears of them and what is answered.
 */

const log = pino({ level: 'silent' });
const methods = new Map(methodsOf('csi.v1.Controller').map((method) => [method.name, method]));

/** A node whose volumes are in memory. It makes, deletes and shows them as a driver does. */
export class MemoryNode {
  readonly name: string;
  readonly volumes = new Map<string, string>();
  /** What of them was deleted and can be brought back, and for how long. */
  readonly trash = new Map<string, string>();
  readonly snapshots = new Map<string, string>();
  /** The snapshots that have come from other nodes: their names and sources, by their ids. */
  readonly came = new Map<string, readonly [name: string, source: string]>();
  /** Happens after it has answered a call for a snapshot. */
  afterSnapshotCall: () => void = () => undefined;
  readonly #undelete = new Map<string, string>();
  made = 0;
  /** Whether volumes take for ever to be made. */
  hangs = false;
  /** Ids of volumes that were adopted. */
  readonly adopted = new Set<string>();
  /** What it answers to CreateVolume instead of the truth. */
  lie: object | undefined;
  /** The secrets of all calls. */
  readonly secrets: Record<string, string>[] = [];

  constructor(name: string) {
    this.name = name;
  }

  link(replica: MemoryReplica, faults: Faults): MemoryLink {
    const link = new MemoryLink(faults);
    replica.accept(this.name, link);
    const hello = { node_id: this.name, driver_name: 'test', driver_version: '1', instance: 'x' };
    new NodeLink(link.node, { hello, ...this.served, log });
    return link;
  }

  /** What it answers over a link, of whatever kind. */
  get served() {
    return { calls: this.#calls(), pools: this.#pools() };
  }

  #calls() {
    const segments = { 'topology.holdfast.dev/node': this.name };
    const show = (volume_id: string) => ({ volume: { volume_id, accessible_topology: [{ segments }] } });
    return callsOf(
      {
        controller: {
          GetCapacity: async () => ({ available_capacity: 1n << 40n }),
          CreateVolume: async ({ name }) => {
            if (this.lie !== undefined) return this.lie;
            if (this.hangs) await new Promise(() => undefined);
            const id = volumeIdFor(this.name, 'default', name);
            if (!this.volumes.has(id)) this.made++;
            this.volumes.set(id, name);
            return show(id);
          },
          ControllerModifyVolume: async ({ mutable_parameters, volume_id }) => {
            if (!this.volumes.has(volume_id)) throw new NotFound(`There is no volume ${volume_id} on this node.`);
            this.#undelete.set(volume_id, mutable_parameters['undelete'] ?? '');
            return {};
          },
          ControllerExpandVolume: async ({ volume_id }) => {
            throw new NotFound(`There is no volume ${volume_id} on this node.`);
          },
          CreateSnapshot: async ({ source_volume_id }) => {
            throw new NotFound(`There is no volume ${source_volume_id} on this node.`);
          },
          DeleteVolume: async ({ secrets, volume_id }) => {
            this.secrets.push(secrets);
            const undelete = this.#undelete.get(volume_id);
            if (this.volumes.delete(volume_id) && undelete !== undefined) this.trash.set(volume_id, undelete);
            return {};
          },
          GetSnapshot: async ({ snapshot_id }) => {
            if (this.#has(snapshot_id)) return { snapshot: { snapshot_id } };
            throw new NotFound(`There is no snapshot ${snapshot_id} on this node.`);
          },
          ListSnapshots: async ({ snapshot_id }) => ({
            entries: this.#has(snapshot_id) ? [{ snapshot: { snapshot_id } }] : [],
          }),
          DeleteSnapshot: async ({ secrets, snapshot_id }) => {
            this.secrets.push(secrets);
            this.#has(snapshot_id);
            this.came.delete(snapshot_id);
            for (const name of this.snapshots.keys()) {
              if (snapshotIdFor(this.name, name) === snapshot_id) this.snapshots.delete(name);
            }
            return {};
          },
          ControllerGetVolume: async ({ volume_id }) => {
            if (!this.volumes.has(volume_id)) throw new NotFound(`There is no volume ${volume_id} on this node.`);
            return show(volume_id);
          },
        },
      },
      { log },
    );
  }

  #has(id: string): boolean {
    queueMicrotask(this.afterSnapshotCall);
    return this.came.has(id) || [...this.snapshots.keys()].some((name) => snapshotIdFor(this.name, name) === id);
  }

  #pools() {
    const records = () =>
      [...this.volumes].map(([id, name]): Pick<VolumeRecord, 'adopted' | 'id' | 'name'> => {
        const parsed = parseVolumeId(id);
        if (parsed === undefined) throw new Error(`${id} is no id`);
        return { id: parsed, name, ...(this.adopted.has(id) && { adopted: { path: '/srv' } }) };
      });
    const snapshots = () =>
      [
        ...Array.from(this.snapshots, ([name, source]) => [snapshotIdFor(this.name, name), name, source] as const),
        ...Array.from(this.came, ([id, named]) => [id, ...named] as const),
      ].map(([text, name, source]): Pick<SnapshotRecord, 'id' | 'name' | 'sourceId'> => {
        const [id, sourceId] = [parseSnapshotId(text), parseVolumeId(source)];
        if (id === undefined || sourceId === undefined) throw new Error(`${source} is no id`);
        return { id, name, sourceId };
      });
    const pool = { name: 'default', list: async () => records(), listSnapshots: async () => snapshots() };
    // All that is asked of it here.
    const known = () => [pool as unknown as Pool];
    return {
      known,
      ready: () => true,
      statuses: () => [{ name: 'default', state: 'open' as const, reason: undefined }],
    };
  }
}

function recordOf(handle: string, node: string): RecordedVolume {
  const claim = { namespace: 'default', name: 'claim', uid: 'uid' };
  return { name: handle, handle, node, claim, phase: 'Released', reclaimPolicy: 'Delete', className: 'class' };
}

/** A replica of the controller. */
export class MemoryReplica {
  readonly state = new FleetState();
  readonly sessions = new Sessions(this.state);
  /** Whether the classes of volumes wait no longer for nodes that are gone. */
  isForgottenByClass = false;
  /** By PersistentVolumes: a volume's node. */
  readonly recorded = new Map<string, string>();
  /** Volumes that have just moved, as their nodes report it. */
  readonly moved = new Map<string, { readonly from: string; readonly to: string }>();
  /** The nodes that volumes have gone to, by `id from`, as those from where they went have noted. */
  readonly went = new Map<string, string>();
  /** What happens while Kubernetes is asked for them. */
  whileListing: () => Promise<void> = async () => undefined;
  readonly #calls = fleetCalls(
    {
      state: this.state,
      sessions: this.sessions,
      ended: new EndedIds(),
      capacity: new FleetCapacity(this.sessions, this.state),
      log,
      records: { of: (id) => this.#list(id), lately: (id) => this.#list(id) },
      isForgottenByClass: async () => this.isForgottenByClass,
      attach: 'none',
      moves: {
        movedTo: (id, from) => (this.moved.get(id)?.from === from ? this.moved.get(id)?.to : undefined),
        gaveUp: () => false,
        wentTo: async (id, from) => this.went.get(`${id} ${from}`),
      },
      sendClaim: undefined,
    },
    { log },
  );

  constructor(nodes: readonly string[]) {
    this.state.expect(nodes);
  }

  async #list(id: string): Promise<readonly RecordedVolume[]> {
    await this.whileListing();
    const node = this.recorded.get(id);
    return node === undefined ? [] : [recordOf(id, node)];
  }

  accept(node: string, link: MemoryLink): void {
    new NodeSession(link.controller, {
      node,
      driverName: 'test',
      controller: 'memory',
      instance: 'memory',
      hasOther: () => false,
      state: this.state,
      log,
      renew: async () => undefined,
      onReady: (session) => this.sessions.ready(session),
      onEnd: (session) => this.sessions.ended(session),
    });
  }

  /** A call as a sidecar makes it: its response, or the code that it failed with. */
  async call<R extends object>(name: string, request: object, deadline?: Date): Promise<R | string> {
    const method = methodOf(name);
    const bytes = encode(method.requestType, request);
    let reply: Reply | undefined;
    await this.#calls.unary.get(method.path)?.({ bytes, deadline, isGone: () => false }, (answered) => {
      reply = answered;
    });
    if (reply === undefined) throw new Error(`${name} was not answered`);
    return 'failure' in reply ? reply.failure.code : decode<R>(method.responseType, reply.response);
  }
}

function methodOf(name: string): Method {
  const method = methods.get(name);
  if (method === undefined) throw new Error(`there is no ${name}`);
  return method;
}
