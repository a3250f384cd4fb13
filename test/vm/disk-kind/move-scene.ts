import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { Mover, type MoveSight } from '../../../src/move/mover.ts';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { luksLayer } from '../../../src/pool/layers/luks/luks-layer.ts';
import { Pools } from '../../../src/pool/pools.ts';
import { ObjectQueue } from '../../../src/volume/flow/object-queue.ts';
import type { VolumeId } from '../../../src/volume/id.ts';
import { openTestDisk } from '../../support/disk-pool.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestPool } from '../../support/image-pool.ts';
import { openTestLvm } from '../../support/lvm-pool.ts';
import { quiet } from '../../support/pool-log.ts';
import { poolKey } from '../luks/encrypted-pool.ts';

/** A disk that has to write all the zeros, on a busy machine. */
const patienceMs = 300_000;

export interface MoveScene {
  /** Where the driver's own files lie. */
  readonly directory: string;
  /** Where the images lie; unset: there are none. */
  readonly images?: string;
  readonly volumeGroup?: string;
  /** The pools of disks, by their names. */
  readonly disks: ReadonlyMap<string, string>;
}

/** A node with pools of images, of a volume group and of disks, between which volumes move. */
export class MovingNode implements AsyncDisposable {
  readonly pools: Pools;
  readonly mover: Mover;

  private constructor(pools: Pools, mover: Mover) {
    this.pools = pools;
    this.mover = mover;
  }

  static async open({ directory, disks, images, volumeGroup }: MoveScene): Promise<MovingNode> {
    const dataDirectory = join(directory, 'data');
    mkdirSync(dataDirectory, { recursive: true });
    const scratch = { join: (...parts: string[]) => join(directory, ...parts) };
    const keyFile = scratch.join('pool.key');
    writeFileSync(keyFile, `${poolKey}\n`, { mode: 0o600 });
    const optionsOf = (name: string, queue: DiskQueue) => ({
      ...{ name, queue, dataDirectory, undeleteSeconds: 60, lockTimeoutMs: 60_000 },
      layers: [
        (inner: Parameters<typeof luksLayer>[0]) => luksLayer(inner, { poolName: name, dataDirectory, keyFile }),
      ],
    });
    const openers = new Map<string, (queue: DiskQueue) => Promise<Catalog>>();
    for (const [name, device] of disks) {
      openers.set(name, (queue) => openTestDisk(scratch, device, optionsOf(name, queue)));
    }
    if (images !== undefined) {
      const location = { type: 'directory', path: images } as const;
      openers.set('images', (queue) => openTestPool(scratch, { ...optionsOf('images', queue), location }));
    }
    if (volumeGroup !== undefined) {
      openers.set('group', (queue) => openTestLvm(scratch, volumeGroup, optionsOf('group', queue)));
    }
    const [defaultName = ''] = openers.keys();
    const pools = new Pools(openers, defaultName);
    const [failure] = await pools.open();
    if (failure !== undefined) {
      await pools.close();
      throw failure.error;
    }
    const parts = { pools, objects: new ObjectQueue(), dataDirectory, queue: new DiskQueue('node', 2), log: quiet };
    const mover = new Mover(parts);
    await mover.resume();
    return new MovingNode(pools, mover);
  }

  sight(id: VolumeId): MoveSight | undefined {
    return this.mover.sights().find(({ job }) => job.id === id);
  }

  /** Waits for the end of a move that runs. */
  async moved(id: VolumeId): Promise<void> {
    await eventually(
      () => assert.notEqual(this.sight(id)?.job.state, 'running', `${this.sight(id)?.trouble}`),
      patienceMs,
    );
    const { job } = this.sight(id) ?? assert.fail('it has not moved');
    assert.deepEqual([job.state, job.reason], ['done', undefined]);
  }

  async move(id: VolumeId, to: string): Promise<void> {
    await this.mover.start(id, to, undefined);
    await this.moved(id);
    assert.equal(await this.placeOf(id), to);
  }

  /** The one pool that has it. */
  async placeOf(id: VolumeId): Promise<string> {
    const found = await Promise.all(
      this.pools.all().map(async (pool) => ((await pool.find(id)) === undefined ? [] : [pool.name])),
    );
    const [name = '', ...others] = found.flat();
    assert.deepEqual(others, []);
    return name;
  }

  /** Frees the pool of the copy that was left there. */
  async purge(name: string): Promise<void> {
    const pool = this.pools.get(name);
    await pool.purge();
    await eventually(async () => assert.ok((await pool.capacity()).availableBytes > 0n), patienceMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.pools.close();
  }
}
