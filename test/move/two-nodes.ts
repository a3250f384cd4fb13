import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { controllerService } from '../../src/controller/service.ts';
import { certifyNode, makeAuthority, makeKey } from '../../src/fleet/tls/certificate.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Mover, type MoveSight } from '../../src/move/mover.ts';
import { type AdmissionKind, Leavings } from '../../src/move/nodes/leavings.ts';
import { type NodeIdentity, peerName } from '../../src/move/nodes/names.ts';
import { Nodes } from '../../src/move/nodes/nodes.ts';
import { SnapshotLeavings } from '../../src/move/nodes/snapshot-leavings.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { openTestDirectories } from '../support/directory-pool.ts';
import { eventually } from '../support/eventually.ts';
import { type ImageTestOptions, openTestPool, volumeSpec } from '../support/image-pool.ts';
import { type LoopDisk, openLoopDisk } from '../support/loop-disk-pool.ts';
import { quiet } from '../support/pool-log.ts';
import type { Scratch } from '../support/scratch.ts';
import type { TestPoolOptions } from '../support/test-pool.ts';
import { deviceOf, write } from './devices.ts';

/** The controller's part: its authority, and what it tells nodes of each other. */
export class Broker {
  readonly #authority = makeAuthority('test', { from: new Date(Date.now() - 60_000), days: 1 });

  identity(node: string): NodeIdentity {
    const { key, publicKey } = makeKey();
    const authority = { ...this.#authority, commonName: 'test' };
    const validity = { from: new Date(Date.now() - 60_000), days: 1 };
    const certificate = certifyNode({ dnsName: peerName(node), publicKey }, authority, validity);
    return { certificate, key, authorities: this.#authority.certificate };
  }
}

interface NodeTimes {
  readonly fenceTimeoutMs?: number | undefined;
  /** The distance between two looks for moves that ended long ago. */
  readonly forgetEveryMs?: number | undefined;
  /** The volumes that pods of the node use, also of a pool that is lost. */
  readonly staged?: readonly VolumeId[] | undefined;
  /** The number of moves that read another node at a time. */
  readonly readsAtOnce?: number | undefined;
  /** Its snapshots follow volumes. */
  readonly movesSnapshots?: boolean | undefined;
}

export interface MovingNodeOptions extends ImageTestOptions, NodeTimes {
  /** A pool on XFS can tell changed blocks; one in a directory may not. */
  readonly xfs?: boolean;
  /** Its volumes are directories. */
  readonly directories?: boolean;
  /** Its pool is this disk. */
  readonly disk?: LoopDisk;
  /** Opens its pool `data`, where that is of another kind. */
  readonly openData?: (options: Pick<TestPoolOptions<object>, 'dataDirectory' | 'name' | 'queue'>) => Promise<Catalog>;
  /** Its pools, the default one first; all but `data` are directories of images. */
  readonly poolNames?: readonly string[];
  /** Its driver is starting: it has not read its notes, or waits for another pool. */
  readonly waitsFor?: 'notes' | 'pools';
}

/** A node with a pool `data`, whose volumes move to other nodes. */
export class MovingNode implements AsyncDisposable {
  readonly name: string;
  readonly pools: Pools;
  readonly mover: Mover;
  readonly leavings: Leavings;
  readonly snapshotLeavings: SnapshotLeavings;
  readonly nodes: Nodes;
  readonly objects = new ObjectQueue();
  port = 0;

  private constructor(
    name: string,
    pools: Pools,
    scratch: Pick<Scratch, 'join'>,
    { fenceTimeoutMs, forgetEveryMs, movesSnapshots = false, readsAtOnce, staged = [] }: NodeTimes,
  ) {
    const shared = {
      ...{ pools, objects: this.objects, dataDirectory: scratch.join(`data-${name}`) },
      ...{ queue: new DiskQueue(name, 2), log: quiet },
      ...(fenceTimeoutMs !== undefined && { fenceTimeoutMs }),
    };
    this.name = name;
    this.pools = pools;
    this.leavings = new Leavings({ ...shared, isMovingHere: (id) => this.mover.isMoving(id) });
    this.snapshotLeavings = new SnapshotLeavings({
      ...{ ...shared, movesSnapshots },
      areComing: (id) => this.mover.areSnapshotsComing(id),
      isLeaving: (id, moveId) => this.leavings.isRunning(id, moveId),
    });
    const { leavings, objects, snapshotLeavings } = this;
    const listen = { host: '127.0.0.1', port: 0 };
    this.nodes = new Nodes({ listen, leavings, snapshotLeavings, objects, log: quiet, readsAtOnce });
    const isStaged = async (id: VolumeId) => staged.includes(id);
    this.mover = new Mover({ ...shared, movesSnapshots, forgetEveryMs, peers: this.nodes, isStaged });
  }

  static async open(
    scratch: Pick<Scratch, 'join'>,
    broker: Broker,
    name: string,
    {
      directories = false,
      disk,
      fenceTimeoutMs,
      forgetEveryMs,
      movesSnapshots,
      openData,
      poolNames = ['data'],
      readsAtOnce,
      staged,
      waitsFor,
      xfs = false,
      ...options
    }: MovingNodeOptions = {},
  ): Promise<MovingNode> {
    const location: ImageTestOptions['location'] = xfs
      ? { type: 'file', path: scratch.join(`${name}.img`), sizeBytes: 2n << 30n }
      : { type: 'directory', path: scratch.join(name) };
    const dataDirectory = scratch.join(`data-${name}`);
    const opener = (queue: DiskQueue) => {
      const common = { dataDirectory, name: 'data', queue };
      if (openData !== undefined) return openData(common);
      if (disk !== undefined) return openLoopDisk(scratch, disk, common);
      return directories
        ? openTestDirectories(scratch, { ...common, path: scratch.join(name) })
        : openTestPool(scratch, { dataDirectory, ...options, name: 'data', queue, location });
    };
    const other = (poolName: string) => (queue: DiskQueue) =>
      openTestPool(scratch, {
        ...{ dataDirectory, name: poolName, queue },
        ...(options.nodeName !== undefined && { nodeName: options.nodeName }),
        location: { type: 'directory', path: scratch.join(`${name}-${poolName}`) },
      });
    const openers = poolNames.map((each) => [each, each === 'data' ? opener : other(each)] as const);
    const pools = new Pools(new Map(openers), poolNames[0] ?? 'data');
    const [failure] = await pools.open();
    if (failure !== undefined) throw failure.error;
    const times = { fenceTimeoutMs, forgetEveryMs, movesSnapshots, readsAtOnce, staged };
    const node = new MovingNode(name, pools, scratch, times);
    if (waitsFor !== 'notes') {
      await Promise.all([node.mover.learn(), node.leavings.resume(), node.snapshotLeavings.resume()]);
    }
    if (waitsFor === undefined) await node.mover.resume();
    node.port = await node.nodes.identify(broker.identity(name));
    return node;
  }

  get pool() {
    return this.pools.get('data');
  }

  sight(id: VolumeId): MoveSight {
    return this.mover.sights().find(({ job }) => job.id === id && job.to !== '') ?? assert.fail('it is not moving');
  }

  async ended(id: VolumeId): Promise<MoveSight> {
    await eventually(() => {
      const { job, progress, trouble } = this.sight(id);
      assert.notEqual(job.state, 'running', `${progress?.phase} ${trouble}`);
    });
    return this.sight(id);
  }

  async delete(id: VolumeId, attach: 'none' | 'required' = 'none'): Promise<void> {
    const { mover, objects, pools } = this;
    const controller = controllerService({
      ...{ nodeId: this.name, topology: undefined, pools, objects, moves: mover, maxVolumesPerNode: 0 },
      ...{ expansion: 'node', attach },
    });
    await controller.DeleteVolume?.({ volume_id: id, secrets: {} }, { deadline: undefined, note: () => undefined });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.leavings.stop();
    await this.nodes.close();
    await this.pools.close();
  }
}

/** What the controller does before a move, and again after either driver has started anew. */
export async function introduce(
  source: MovingNode,
  target: MovingNode,
  { id, moveId }: { readonly id: VolumeId; readonly moveId: string },
  kind: AdmissionKind = 'again',
  port = source.port,
): Promise<void> {
  // The target hears of a refusal from the source itself.
  await source.leavings.admit({ id, moveId, node: target.name }, kind).catch((error: unknown) => {
    if (kind !== 'again') throw error;
  });
  target.nodes.connect(source.name, { host: '127.0.0.1', port });
  target.mover.connected(source.name);
}

/** Orders a move. @param port of a network before the source @returns its id */
export async function order(
  source: MovingNode,
  target: MovingNode,
  id: VolumeId,
  limit?: bigint,
  port?: number,
): Promise<string> {
  const moveId = randomUUID();
  await introduce(source, target, { id, moveId }, 'order', port);
  const to = { to: undefined, ticket: 'ticket', limitBytesPerSecond: limit };
  await target.mover.startFrom({ id, moveId, node: source.name, ...to });
  return moveId;
}

/** Moves it from each node to the next one. */
export async function moveAlong(id: VolumeId, ...nodes: readonly MovingNode[]): Promise<void> {
  for (const [index, target] of nodes.entries()) {
    const source = nodes[index - 1];
    if (source === undefined) continue;
    await order(source, target, id);
    assert.equal((await target.ended(id)).job.state, 'done');
  }
}

const mebibyte = 1n << 20n;

/** A raw block volume that moves. */
export const blockSpec = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 32n * mebibyte });

/** Makes it, with random bytes in the middle of it. */
export async function filled(node: MovingNode, bytes = 2 << 20, spec = blockSpec): Promise<void> {
  await node.pool.create(spec);
  await using shown = await deviceOf(node, blockSpec.id);
  write(shown.devicePath, randomBytes(bytes), 5n * mebibyte);
}
