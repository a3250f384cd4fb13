import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mock } from 'node:test';
import { controllerService } from '../../src/controller/service.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { readAt } from '../../src/kernel/file/file.ts';
import { Mover, type MoveSight } from '../../src/move/mover.ts';
import type { SnapshotsJob } from '../../src/move/snapshots/snapshot-mover.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ResourceExhausted } from '../../src/volume/errors.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { type SnapshotId, snapshotIdFor } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { quiet } from '../support/pool-log.ts';
import type { Scratch } from '../support/scratch.ts';
import { deviceOf, write } from './devices.ts';
import { movesOf } from './two-pools.ts';

export const mib = 1n << 20n;
export const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 96n * mib });
export const { id } = spec;
export interface Sized {
  readonly name: string;
  readonly bytes: bigint;
}
export const sized = (name: string, bytes = 1n << 30n): Sized => ({ name, bytes });

export interface Digests {
  readonly old: string;
  readonly middle: string;
  readonly young: string;
}

/** A node with pools on XFS, which share blocks, and one in a directory, which may not. */
export class Node implements AsyncDisposable {
  readonly pools: Pools;
  readonly mover: Mover;
  readonly objects = new ObjectQueue();

  private constructor(pools: Pools, scratch: Scratch, forgetEveryMs: number | undefined) {
    this.pools = pools;
    const options = { dataDirectory: scratch.join('data'), queue: new DiskQueue('node', 2), log: quiet };
    const forgetting = forgetEveryMs === undefined ? {} : { forgetEveryMs };
    this.mover = new Mover({ ...options, ...forgetting, pools, objects: this.objects, movesSnapshots: true });
  }

  /** @param away pools whose disks are not there */
  static async open(
    scratch: Scratch,
    names: readonly Sized[] = [sized('one'), sized('two')],
    away: readonly string[] = [],
    forgetEveryMs?: number,
  ): Promise<Node> {
    const openers = names.map(({ bytes, name }) => {
      const location = { type: 'file', path: scratch.join(`${name}.img`), sizeBytes: bytes } as const;
      const open = (queue: DiskQueue) =>
        away.includes(name)
          ? Promise.reject(new Error('its disk is away'))
          : openTestPool(scratch, { name, queue, location });
      return [name, open] as const;
    });
    const plain = { type: 'directory', path: scratch.join('plain') } as const;
    const copying = (queue: DiskQueue) => openTestPool(scratch, { name: 'plain', queue, location: plain });
    const pools = new Pools(new Map([...openers, ['plain', copying]]), 'one');
    const [failure] = await pools.open();
    if (failure !== undefined && away.length === 0) throw failure.error;
    const node = new Node(pools, scratch, forgetEveryMs);
    await node.mover.resume();
    return node;
  }

  get controller() {
    return controllerService({
      ...{ nodeId: 'node', topology: undefined, pools: this.pools, objects: this.objects, moves: this.mover },
      ...{ maxVolumesPerNode: 0, expansion: 'node', attach: 'none' },
    });
  }

  async remove(snapshot_id: string): Promise<void> {
    await this.controller.DeleteSnapshot?.({ snapshot_id, secrets: {} }, call);
  }

  /** The names of the snapshots, as they are listed, each with its pool. */
  async listed(): Promise<string[]> {
    const found: string[] = [];
    for (const pool of this.pools.all()) {
      for (const { name } of await pool.listSnapshots(undefined, undefined)) found.push(`${pool.name}/${name}`);
    }
    return found.sort();
  }

  sight(): MoveSight {
    return this.mover.sights().find(({ job }) => job.id === id) ?? assert.fail('it is not moving');
  }

  /** The end of the move, and of that of the snapshots. */
  async ended(): Promise<SnapshotsJob> {
    await eventually(() => {
      const { job, snapshots, trouble } = this.sight();
      assert.notEqual(job.state, 'running', `${trouble}`);
      assert.notEqual(snapshots?.job.state ?? 'running', 'running', `${snapshots?.trouble}`);
    });
    return this.sight().snapshots?.job ?? assert.fail();
  }

  /** Writes to the volume, and takes a snapshot of it. @returns the digest of that */
  async snapshot(name: string, bytes: Buffer, offsetBytes: bigint): Promise<string> {
    {
      await using shown = await deviceOf(this, id);
      write(shown.devicePath, bytes, offsetBytes);
    }
    const { pool } = await this.pools.require(id);
    await pool.takeSnapshots([{ id: idOf(name), name, sourceId: id, parameters: { a: name } }]);
    return this.digest(name);
  }

  async digest(name: string): Promise<string> {
    const { pool, record } = (await this.pools.findSnapshot(idOf(name))) ?? assert.fail(`there is no ${name}`);
    await using file = await movesOf(pool).snapshots.read(record.id);
    const bytes = await readAt(pool.queue, file, { offsetBytes: 0, lengthBytes: Number(record.sizeBytes) });
    return createHash('sha256').update(bytes).digest('hex');
  }

  async usedBytes(name: string): Promise<bigint> {
    const { disk } = await this.pools.get(name).usage();
    return disk.diskBytes - disk.freeBytes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.pools.close();
  }
}

/** From now on a pool commits no snapshot: one that was handed over to it does not arrive. @returns ends that */
export function refuseCommits(pool: Pool): () => void {
  const target = movesOf(pool).snapshots;
  const receive = target.receive.bind(target);
  const refused = mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
    const incoming = await receive(...args);
    incoming.commit = async () => {
      throw new ResourceExhausted(`pool ${pool.name} is full.`);
    };
    return incoming;
  });
  return () => refused.mock.restore();
}

export const call = { deadline: undefined, note: () => undefined };
export const idOf = (name: string): SnapshotId => snapshotIdFor('node', name);

/** A volume with three snapshots, of 40 MiB, 41 MiB and 42 MiB. @returns their digests */
export async function withSnapshots(node: Node): Promise<Digests> {
  await node.pools.get('one').create(spec);
  return {
    old: await node.snapshot('old', randomBytes(40 << 20), 0n),
    middle: await node.snapshot('middle', randomBytes(1 << 20), 2n * mib),
    young: await node.snapshot('young', randomBytes(2 << 20), 50n * mib),
  };
}
