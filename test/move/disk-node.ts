import assert from 'node:assert/strict';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Mover, type MoveSight } from '../../src/move/mover.ts';
import type { Peers } from '../../src/move/peers.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool } from '../support/image-pool.ts';
import { type LoopDisk, openLoopDisk } from '../support/loop-disk-pool.ts';
import { quiet } from '../support/pool-log.ts';
import type { Scratch } from '../support/scratch.ts';

/** A node with images, and pools of disks that outlive it. */
export class DiskNode implements AsyncDisposable {
  readonly pools: Pools;
  readonly mover: Mover;

  private constructor(pools: Pools, scratch: Pick<Scratch, 'join'>, peers: Peers | undefined) {
    this.pools = pools;
    const shared = { objects: new ObjectQueue(), queue: new DiskQueue('node', 2), log: quiet };
    this.mover = new Mover({ pools, peers, dataDirectory: scratch.join('data'), ...shared });
  }

  static async open(
    scratch: Pick<Scratch, 'join'>,
    disks: Readonly<Record<string, LoopDisk>>,
    peers?: Peers,
  ): Promise<DiskNode> {
    const common = { undeleteSeconds: 60 };
    const openers = new Map<string, (queue: DiskQueue) => Promise<Catalog>>([
      ['images', (queue) => openTestPool(scratch, { ...common, name: 'images', queue })],
    ]);
    for (const [name, disk] of Object.entries(disks)) {
      openers.set(name, (queue) => openLoopDisk(scratch, disk, { ...common, name, queue }));
    }
    const pools = new Pools(openers, 'images');
    const [failure] = await pools.open();
    if (failure !== undefined) throw failure.error;
    const node = new DiskNode(pools, scratch, peers);
    await node.mover.resume();
    return node;
  }

  sight(id: VolumeId): MoveSight | undefined {
    return this.mover.sights().find(({ job }) => job.id === id);
  }

  async move(id: VolumeId, to: string): Promise<void> {
    await this.mover.start(id, to, undefined);
    await this.moved(id);
    assert.equal((await this.pools.require(id)).pool.name, to);
  }

  /** Waits for the end of a move that runs. */
  async moved(id: VolumeId): Promise<void> {
    await eventually(() => assert.notEqual(this.sight(id)?.job.state, 'running', `${this.sight(id)?.trouble}`));
    const { job } = this.sight(id) ?? assert.fail('it has not moved');
    assert.deepEqual([job.state, job.reason], ['done', undefined]);
  }

  /** The pools that have it. */
  async placesOf(id: VolumeId): Promise<string[]> {
    const found = this.pools.all().map(async (pool) => ((await pool.find(id)) === undefined ? [] : [pool.name]));
    return (await Promise.all(found)).flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.pools.close();
  }
}
