import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { controllerService } from '../../src/controller/service.ts';
import { readAt } from '../../src/kernel/file/file.ts';
import type { SnapshotsJob } from '../../src/move/snapshots/snapshot-mover.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import type { Scratch } from '../support/scratch.ts';
import { deviceOf, write } from './devices.ts';
import { call, type Digests, idOf, mib } from './following-node.ts';
import { Broker, introduce, MovingNode, type MovingNodeOptions } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

export const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 64n * mib });
export const { id } = spec;

/** Nodes whose snapshots follow volumes, and which start again. */
export class FollowingNodes implements AsyncDisposable {
  readonly #scratch: Scratch;
  readonly #broker = new Broker();
  readonly #nodes = new Map<string, MovingNode>();
  /** The last order. */
  #order: { readonly from: string; readonly to: string; readonly moveId: string } | undefined;

  constructor(scratch: Scratch) {
    this.#scratch = scratch;
  }

  static async open(scratch: Scratch, ...names: readonly string[]): Promise<FollowingNodes> {
    const nodes = new FollowingNodes(scratch);
    for (const name of names) await nodes.start(name);
    return nodes;
  }

  /** @param pools that it has */
  async start(name: string, options: MovingNodeOptions = {}): Promise<MovingNode> {
    const node = await MovingNode.open(this.#scratch, this.#broker, name, {
      ...{ xfs: true, movesSnapshots: true, nodeName: name },
      ...options,
    });
    this.#nodes.set(name, node);
    return node;
  }

  async stop(name: string): Promise<void> {
    await this.get(name)[Symbol.asyncDispose]();
    this.#nodes.delete(name);
  }

  get(name: string): MovingNode {
    return this.#nodes.get(name) ?? assert.fail(name);
  }

  /** What the controller does. */
  async order(from: string, to: string, limit?: bigint): Promise<void> {
    const [source, target] = [this.get(from), this.get(to)];
    const moveId = randomUUID();
    const move = { id, moveId, node: to };
    await source.snapshotLeavings.admit(move, 'order');
    if ((await source.pools.find(id)) !== undefined) await source.leavings.admit(move, 'order');
    this.#order = { from, to, moveId };
    target.nodes.connect(from, { host: '127.0.0.1', port: source.port });
    const order = { to: undefined, ticket: 'ticket', limitBytesPerSecond: limit, withSnapshots: true };
    await target.mover.startFrom({ ...order, id, moveId, node: from });
  }

  /** The controller brings both together again after one has started anew. */
  async meet(): Promise<void> {
    const { from, moveId, to } = this.#order ?? assert.fail('nothing was ordered');
    const source = this.get(from);
    await source.snapshotLeavings.admit({ id, moveId, node: to }, 'again').catch(() => undefined);
    await introduce(source, this.get(to), { id, moveId });
  }

  /** The end of the snapshots of the last order. */
  async ended(): Promise<SnapshotsJob> {
    const target = this.get(this.#order?.to ?? '');
    await eventually(() => {
      const sight = followed(target) ?? assert.fail('they do not move');
      assert.notEqual(sight.job.state, 'running', `${sight.trouble}`);
    });
    return followed(target)?.job ?? assert.fail();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.#nodes.values()) await node[Symbol.asyncDispose]();
  }
}

export function followed(node: MovingNode) {
  return node.mover.sights().find(({ job, snapshots }) => job.id === id && snapshots !== undefined)?.snapshots;
}

function controllerOf({ mover, name, objects, pools }: MovingNode) {
  return controllerService({
    ...{ nodeId: name, topology: undefined, pools, objects, moves: mover, maxVolumesPerNode: 0 },
    ...{ expansion: 'node', attach: 'none' },
  });
}

export async function remove(node: MovingNode, name: string): Promise<void> {
  await controllerOf(node).DeleteSnapshot?.({ snapshot_id: idOf(name), secrets: {} }, call);
}

export async function look(node: MovingNode, name: string): Promise<void> {
  await controllerOf(node).GetSnapshot?.({ snapshot_id: idOf(name), secrets: {} }, call);
}

/** Asks for a snapshot as Kubernetes does, once more. @returns its id */
export async function take(node: MovingNode, name: string): Promise<string | undefined> {
  const request = { source_volume_id: id, name, parameters: {}, secrets: {} };
  return (await controllerOf(node).CreateSnapshot?.(request, call))?.snapshot?.snapshot_id ?? undefined;
}

/** The names of the snapshots that the node lists. */
export async function listed(node: MovingNode): Promise<string[]> {
  const found = await Promise.all(node.pools.all().map((pool) => pool.listSnapshots(undefined, undefined)));
  return found
    .flat()
    .map(({ name }) => name)
    .sort();
}

export async function digest(node: MovingNode, name: string): Promise<string> {
  const { pool, record } = (await node.pools.findSnapshot(idOf(name))) ?? assert.fail(`there is no ${name}`);
  await using file = await movesOf(pool).snapshots.read(record.id);
  const bytes = await readAt(pool.queue, file, { offsetBytes: 0, lengthBytes: Number(record.sizeBytes) });
  return createHash('sha256').update(bytes).digest('hex');
}

/** Writes to the volume, and takes a snapshot of it. @returns the digest of that */
export async function snapshot(node: MovingNode, name: string, bytes: Buffer, offsetBytes: bigint): Promise<string> {
  {
    await using shown = await deviceOf(node, id);
    write(shown.devicePath, bytes, offsetBytes);
  }
  const { pool } = await node.pools.require(id);
  await pool.takeSnapshots([{ id: idOf(name), name, sourceId: id, parameters: { a: name } }]);
  return digest(node, name);
}

/** A volume with three snapshots. @returns their digests */
export async function withSnapshots(node: MovingNode): Promise<Digests> {
  await node.pool.create(spec);
  return {
    old: await snapshot(node, 'old', randomBytes(8 << 20), 0n),
    middle: await snapshot(node, 'middle', randomBytes(1 << 20), 2n * mib),
    young: await snapshot(node, 'young', randomBytes(2 << 20), 30n * mib),
  };
}

export async function requireDigests(node: MovingNode, digests: Partial<Digests>): Promise<void> {
  for (const [name, expected] of Object.entries(digests)) assert.equal(await digest(node, name), expected, name);
}
