import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Mover, type MoveSight } from '../../src/move/mover.ts';
import { copiesAtATime } from '../../src/move/turns/read-turns.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, write } from './devices.ts';
import { movesOf, openPool } from './two-pools.ts';

/* Many moves between two pools of a node at once: each waits for its turn before it leaves anything where it comes from. */

const mib = 1n << 20n;
const slow = 1n << 16n;

/** A node with three pools. */
class Node implements AsyncDisposable {
  readonly pools: Pools;
  readonly mover: Mover;

  private constructor(pools: Pools, scratch: Scratch) {
    this.pools = pools;
    const shared = { objects: new ObjectQueue(), queue: new DiskQueue('node', 2), log: quiet };
    this.mover = new Mover({ pools, dataDirectory: scratch.join('data'), ...shared });
  }

  static async open(scratch: Scratch): Promise<Node> {
    const opener = (name: string) => (queue: DiskQueue) => openPool(scratch, name, { queue });
    const pools = new Pools(new Map(['from', 'to', 'other'].map((name) => [name, opener(name)])), 'from');
    const [failure] = await pools.open();
    if (failure !== undefined) throw failure.error;
    const node = new Node(pools, scratch);
    await node.mover.resume();
    return node;
  }

  /** A volume with some data, in the pool that all leave. */
  async filled(name: string): Promise<VolumeId> {
    const spec = volumeSpec(name, { content: { type: 'block' }, sizeBytes: 16n * mib });
    await this.pools.get('from').create(spec);
    await using shown = await deviceOf(this, spec.id);
    write(shown.devicePath, randomBytes(4 << 20), 0n);
    return spec.id;
  }

  sight(id: VolumeId): MoveSight {
    return this.mover.sights().find(({ job }) => job.id === id) ?? assert.fail('it is not moving');
  }

  isCopying(id: VolumeId): boolean {
    return (this.sight(id).progress?.doneBytes ?? 0n) > 0n;
  }

  async why(id: VolumeId) {
    return (await movesOf(this.pools.get('from')).stateOf(id)).why;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mover.stop();
    await this.pools.close();
  }
}

describe('a move between two pools of a node, as many others between them copy', () => {
  test('leaves no fence, says that it waits, and comes to its turn; one to another pool does not wait', async () => {
    using scratch = new Scratch('pool-queue');
    await using node = await Node.open(scratch);
    const names = Array.from({ length: copiesAtATime }, (_, at) => `copied ${at}`);
    const copied: VolumeId[] = [];
    for (const name of names) copied.push(await node.filled(name));
    const [waiting, elsewhere] = [await node.filled('waiting'), await node.filled('elsewhere')];
    for (const id of copied) await node.mover.start(id, 'to', slow);
    await eventually(() => assert.ok(copied.every((id) => node.isCopying(id))));
    await node.mover.start(waiting, 'to', undefined);
    await eventually(() =>
      assert.equal(node.sight(waiting).trouble, 'it waits until fewer moves from pool from copy at a time.'),
    );
    await node.mover.start(elsewhere, 'other', undefined);
    await eventually(() => assert.equal(node.sight(elsewhere).job.state, 'done'));
    assert.equal(await node.why(waiting), undefined);
    // A pod can use it.
    await (await deviceOf(node, waiting))[Symbol.asyncDispose]();
    assert.equal(node.sight(waiting).job.state, 'running');
    await node.mover.cancel(copied[0] ?? assert.fail());
    await eventually(() => assert.equal(node.sight(waiting).job.state, 'done'));
  });

  test('can be cancelled while it waits', async () => {
    using scratch = new Scratch('pool-queue');
    await using node = await Node.open(scratch);
    const ids: VolumeId[] = [];
    for (let at = 0; at <= copiesAtATime; at++) ids.push(await node.filled(`volume ${at}`));
    for (const id of ids) await node.mover.start(id, 'to', slow);
    const waiting = ids.at(-1) ?? assert.fail();
    await eventually(() => assert.match(node.sight(waiting).trouble ?? '', /waits until fewer moves/));
    assert.equal((await node.mover.cancel(waiting)).state, 'cancelled');
    assert.deepEqual(
      await movesOf(node.pools.get('to'))
        .arriving()
        .then((all) => all.includes(waiting)),
      false,
    );
  });
});
