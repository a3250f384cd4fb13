import assert from 'node:assert/strict';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { Mover, type MoveSight } from '../../../src/move/mover.ts';
import { Pools } from '../../../src/pool/pools.ts';
import { ObjectQueue } from '../../../src/volume/flow/object-queue.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { openTestLvm } from '../../support/lvm-pool.ts';
import { quiet } from '../../support/pool-log.ts';

export const moved = volumeSpec('moved', { content: { type: 'block' }, sizeBytes: 16n << 20n });
export const poolNames = ['one', 'two'] as const;

const thinPool = { sizeBytes: 1n << 30n, metadataBytes: undefined, overcommit: 1 };
/** Opening two pools of volume groups takes long where the processor is emulated. */
const patienceMs = 300_000;

/** A node with two thin pools, each in a volume group. */
export class MovingNode implements AsyncDisposable {
  readonly pools: Pools;
  readonly mover: Mover;

  private constructor(pools: Pools, mover: Mover) {
    this.pools = pools;
    this.mover = mover;
  }

  /** @param groups of the pools, in their order */
  static async open(dataDirectory: string, groups: readonly string[]): Promise<MovingNode> {
    const openers = poolNames.map((name, at) => {
      const scratch = { join: () => dataDirectory };
      const open = (queue: DiskQueue) =>
        openTestLvm(scratch, groups[at] ?? assert.fail(), { name, queue, dataDirectory, thinPool });
      return [name, open] as const;
    });
    const pools = new Pools(new Map(openers), 'one');
    const [failure] = await pools.open();
    if (failure !== undefined) throw failure.error;
    const shared = { pools, objects: new ObjectQueue(), dataDirectory, queue: new DiskQueue('node', 2) };
    return new MovingNode(pools, new Mover({ ...shared, movesSnapshots: true, log: quiet }));
  }

  sight(): MoveSight | undefined {
    return this.mover.sights().find(({ job }) => job.id === moved.id);
  }

  async ended(): Promise<void> {
    await eventually(() => {
      const { job, snapshots, trouble } = this.sight() ?? {};
      assert.notEqual(job?.state, 'running', `${trouble}`);
      assert.notEqual(snapshots?.job.state, 'running', `${snapshots?.trouble}`);
    }, patienceMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.pools.close();
  }
}
