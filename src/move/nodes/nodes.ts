import { Agent } from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import type { PoolLog } from '../../pool/log.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { MoveJob } from '../job.ts';
import type { CancelledLeaving, PeerMove, Peers } from '../peers.ts';
import type { OtherNode } from '../snapshots/held.ts';
import { NotConnected } from '../source.ts';
import { QueuedSource } from '../turns/queued-source.ts';
import { TurnsPerPlace } from '../turns/read-turns.ts';
import type { Leavings } from './leavings.ts';
import { type NodeIdentity, peerName } from './names.ts';
import type { Agents } from './node-calls.ts';
import { NodeSnapshots } from './node-snapshots.ts';
import { NodeSource } from './node-source.ts';
import { GivingServer } from './server.ts';
import type { SnapshotLeavings } from './snapshot-leavings.ts';
import { connectionsEach } from './wire.ts';

/** The volumes that are read from one node at a time: each takes some 8 MiB at both ends. That node would let more in. */
const readsAtATime = 8;

export interface NodesOptions {
  /** Where other nodes fetch volumes. */
  readonly listen: { readonly host: string | undefined; readonly port: number };
  readonly leavings: Leavings;
  readonly snapshotLeavings: SnapshotLeavings;
  readonly objects: ObjectQueue;
  readonly log: PoolLog;
  /** The number of moves that read another node at a time. */
  readonly readsAtOnce?: number | undefined;
}

interface Known {
  readonly host: string;
  readonly port: number;
  readonly secure: ConnectionOptions;
  readonly agents: Agents;
}

/** Connections between nodes, for the moves of volumes, as the controller introduces them. */
export class Nodes implements Peers {
  readonly #options: NodesOptions;
  readonly #known = new Map<string, Known>();
  readonly #turns: TurnsPerPlace;
  #identity: NodeIdentity | undefined;
  #server: GivingServer | undefined;
  #opening: Promise<number> | undefined;

  constructor(options: NodesOptions) {
    this.#options = options;
    this.#turns = new TurnsPerPlace(options.readsAtOnce ?? readsAtATime);
  }

  /** Sets the certificate of this node. @returns the port where others fetch volumes */
  async identify(identity: NodeIdentity): Promise<number> {
    this.#identity = identity;
    // Connections that are there go on.
    for (const [node, { host, port }] of this.#known) {
      this.#known.set(node, { host, port, ...securedFor(node, identity) });
    }
    this.#server?.renew(identity);
    this.#opening ??= this.#open(identity);
    return this.#opening;
  }

  async #open(identity: NodeIdentity): Promise<number> {
    const { leavings, listen, log, objects, snapshotLeavings } = this.#options;
    const server = new GivingServer({ ...listen, identity, leavings, snapshotLeavings, objects, log });
    this.#server = server;
    try {
      return await server.listen();
    } catch (error) {
      // Another program has the port: it may be free when this is tried again.
      this.#server = undefined;
      this.#opening = undefined;
      throw error;
    }
  }

  /** Where another node can be reached. */
  connect(node: string, { host, port }: { readonly host: string; readonly port: number }): void {
    const before = this.#known.get(node);
    if (before?.host === host && before.port === port) return;
    if (before !== undefined) destroyAll(before.agents);
    const identity = this.#identity;
    if (identity === undefined) return;
    this.#known.set(node, { host, port, ...securedFor(node, identity) });
  }

  source(move: PeerMove, signal: AbortSignal): QueuedSource {
    const { objects } = this.#options;
    const source = new NodeSource({ ...this.#connected(move), move, objects, signal });
    return new QueuedSource({ source, moveId: move.moveId, turns: this.#turns.at(move.node), signal });
  }

  snapshots(move: PeerMove, signal: AbortSignal): OtherNode {
    return new NodeSnapshots({ ...this.#connected(move), move, turns: this.#turns.at(move.node), signal });
  }

  get leavingSnapshots(): SnapshotLeavings {
    return this.#options.snapshotLeavings;
  }

  /** @throws NotConnected */
  #connected({ node }: PeerMove): Known {
    const known = this.#known.get(node);
    if (known !== undefined) return known;
    throw new NotConnected(`node ${node} is not connected: the controller has to say where it is.`);
  }

  leavingFor(id: VolumeId): string | undefined {
    return this.#options.leavings.nodeFor(id);
  }

  leaving(): MoveJob[] {
    return this.#options.leavings.jobs();
  }

  cancelLeaving(id: VolumeId, isEvenSo: boolean): Promise<CancelledLeaving | undefined> {
    return this.#options.leavings.cancel(id, isEvenSo);
  }

  wanted(id: VolumeId): Promise<void> {
    return this.#options.leavings.wanted(id);
  }

  takenBack(id: VolumeId): Promise<void> {
    return this.#options.leavings.takenBack(id);
  }

  arrived(id: VolumeId, node: string): Promise<void> {
    return this.#options.leavings.arrived(id, node);
  }

  forgetDeleted(id: VolumeId): Promise<void> {
    return this.#options.leavings.forgetDeleted(id);
  }

  async close(): Promise<void> {
    for (const { agents } of this.#known.values()) destroyAll(agents);
    await this.#opening?.catch(() => undefined);
    await this.#server?.close();
  }
}

/** The other node is believed by its name, not by its address. */
function securedFor(
  node: string,
  { authorities: ca, certificate: cert, key }: NodeIdentity,
): Pick<Known, 'agents' | 'secure'> {
  const secure = { ca, cert, key, servername: peerName(node), minVersion: 'TLSv1.3' } as const;
  const agent = (maxSockets: number) => new Agent({ ...secure, keepAlive: true, maxSockets });
  return { secure, agents: { calls: agent(connectionsEach.calls), waits: agent(connectionsEach.waits) } };
}

function destroyAll({ calls, waits }: Agents): void {
  calls.destroy();
  waits.destroy();
}
