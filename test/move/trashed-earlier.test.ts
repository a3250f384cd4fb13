import assert from 'node:assert/strict';
import { copyFileSync, rmSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { readUnderBy } from '../../src/move/moving.ts';
import { lookAtImagePool } from '../../src/pool/kinds/image/look.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { CommitOrder } from '../../src/pool/records/commit-order.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { testSettings } from '../support/test-pool.ts';
import { deviceOf, digestOf, written } from './devices.ts';
import { call, id, mib, Node, sized, spec } from './following-node.ts';
import { Broker, blockSpec, MovingNode, order } from './two-nodes.ts';
import { movesOf, refuseVolumes } from './two-pools.ts';

/* Copies that their volume has left lie in the trash, some of them on disks that came back as they were before the move. */

/** It takes its space from the start, so what is free is known. */
const thick = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 300n * mib, provisioning: 'thick' });
const large = volumeSpec('large', { content: { type: 'block' }, sizeBytes: 600n * mib, provisioning: 'thick' });

function adminOf({ mover, objects, pools }: MovingNode | Node) {
  return adminService({ nodeId: 'node', pools, objects, mover });
}

/** Pool one has an earlier copy in its trash, from a disk that came back as it was before the move; pool two has the volume. */
async function settledEarlier(scratch: Scratch): Promise<{ readonly earlier: string; readonly latest: string }> {
  let earlier: string;
  {
    await using node = await Node.open(scratch);
    await node.pools.get('one').create(thick);
    earlier = await written(node, id);
  }
  copyFileSync(scratch.join('one.img'), scratch.join('one.old'));
  let latest: string;
  {
    await using node = await Node.open(scratch);
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    latest = await written(node, id);
  }
  copyFileSync(scratch.join('one.old'), scratch.join('one.img'));
  await using node = await Node.open(scratch);
  assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'old');
  await node.mover.cancel(id);
  assert.equal((await node.pools.get('one').trash()).length, 1);
  return { earlier, latest };
}

describe('an earlier copy in the trash, without a fence', () => {
  test('becomes the volume by the word alone that the later disk is lost', async () => {
    using scratch = new Scratch('trashed');
    const { earlier, latest } = await settledEarlier(scratch);
    {
      await using node = await Node.open(scratch, [sized('one')]);
      assert.equal(await movesOf(node.pools.get('one')).hasLeft(id), true);
      await assert.rejects(adminOf(node).restore({ id }, call), {
        name: 'FailedPrecondition',
        message: /has moved to pool two since this copy of it in pool one.* --pool-is-lost two\.$/,
      });
    }
    {
      await using node = await Node.open(scratch);
      await using shown = await deviceOf(node, id);
      assert.equal(await digestOf(shown.devicePath), latest);
    }
    await using node = await Node.open(scratch, [sized('one')]);
    await adminOf(node).restore({ id, lostPool: 'two' }, call);
    await using shown = await deviceOf(node, id);
    assert.equal(await digestOf(shown.devicePath), earlier);
  });

  test('keeps its space for its week, before a restart and after it', async () => {
    using scratch = new Scratch('trashed');
    await settledEarlier(scratch);
    for (let starts = 0; starts < 2; starts++) {
      await using node = await Node.open(scratch);
      const one = node.pools.get('one');
      await assert.rejects(one.create(large), { name: 'ResourceExhausted' });
      assert.equal((await one.trash()).length, 1);
    }
  });
});

test('a look at a pool without its driver counts the space of a copy that its volume has left as taken, as the driver does', async () => {
  using scratch = new Scratch('trashed');
  await using node = await Node.open(scratch);
  const one = node.pools.get('one');
  await one.create(thick);
  await node.mover.start(id, 'two', undefined);
  await eventually(() => assert.equal(node.sight().job.state, 'done'));
  await eventually(async () => assert.equal((await one.trash()).length, 1));
  const location = { type: 'file', path: scratch.join('one.img'), sizeBytes: sized('one').bytes } as const;
  const { queue, dataDirectory, ...settings } = testSettings(scratch);
  const pool = { ...settings, name: 'one', own: { location } };
  const { contents } = await lookAtImagePool(pool as never, { queue, dataDirectory, wanted: 'capacity' } as never);
  const looked = contents?.capacity?.availableBytes ?? assert.fail('the pool is not open');
  const { availableBytes } = await one.capacity();
  const apart = looked > availableBytes ? looked - availableBytes : availableBytes - looked;
  assert.ok(apart < 64n * mib, `${looked} and ${availableBytes}`);
});

test('a copy whose way to the trash has failed at its sync keeps its space for its week', async () => {
  using scratch = new Scratch('trashed');
  await using node = await Node.open(scratch);
  const one = node.pools.get('one');
  await one.create(thick);
  const moved = CommitOrder.prototype.moved;
  let failures = 0;
  const failing = mock.method(
    CommitOrder.prototype,
    'moved',
    async function (this: CommitOrder, ...paths: [string, string]) {
      if (paths[0].includes('/volumes') && failures++ === 0) throw Object.assign(new Error('EIO'), { code: 'EIO' });
      return moved.apply(this, paths);
    },
  );
  await node.mover.start(id, 'two', undefined);
  await eventually(() => assert.notEqual(node.sight().job.state, 'running'));
  failing.mock.restore();
  assert.equal(failures, 1);
  assert.equal((await one.trash()).length, 1);
  await assert.rejects(one.create(large), { name: 'ResourceExhausted' });
  assert.equal((await one.trash()).length, 1);
});

describe('an earlier copy in the trash, while all of a later one waits', () => {
  const isWhole = async (pool: Pool) => readUnderBy(await movesOf(pool).comingNote(id)) !== undefined;

  /** Pool three has the first copy in its trash; pool one, which is lost, has handed the volume over to pool two, where all of it waits. */
  async function waitingInPool(scratch: Scratch): Promise<{ readonly first: string; readonly latest: string }> {
    await using node = await Node.open(scratch, [sized('one'), sized('two'), sized('three')]);
    const [one, two] = [node.pools.get('one'), node.pools.get('two')];
    await node.pools.get('three').create(spec);
    const first = await written(node, id);
    await node.mover.start(id, 'one', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    const latest = await written(node, id);
    refuseVolumes(two);
    await node.mover.start(id, 'two', undefined);
    await eventually(async () => assert.equal((await movesOf(one).stateOf(id)).why, 'given'));
    assert.ok(await isWhole(two));
    return { first, latest };
  }

  const refused = {
    name: 'FailedPrecondition',
    message:
      /all of a copy of volume .* waits in pool two.* move finish .* --pool-is-lost one.* move cancel .* --even-so/,
  };

  for (const disk of ['there', 'out of the configuration'] as const) {
    test(`in another pool, whose disk is ${disk}: the word that the pool is lost is refused, and the later copy becomes it`, async () => {
      using scratch = new Scratch('trashed');
      const { latest } = await waitingInPool(scratch);
      {
        await using node = await Node.open(scratch, [...(disk === 'there' ? [sized('two')] : []), sized('three')]);
        for (const lostPool of [undefined, 'one']) {
          await assert.rejects(adminOf(node).restore({ id, lostPool }, call), refused);
        }
        assert.equal(await node.pools.find(id), undefined);
      }
      await using node = await Node.open(scratch, [sized('two'), sized('three')]);
      assert.equal((await node.mover.finish(id, { lostPool: 'one' })).state, 'done');
      await using shown = await deviceOf(node, id);
      assert.equal(await digestOf(shown.devicePath), latest);
    });
  }

  for (const disk of ['there', 'out of the configuration'] as const) {
    test(`in another pool, whose disk is ${disk}: it is restored once that is cancelled by a second word`, async () => {
      using scratch = new Scratch('trashed');
      const { first } = await waitingInPool(scratch);
      await using node = await Node.open(scratch, [...(disk === 'there' ? [sized('two')] : []), sized('three')]);
      await assert.rejects(node.mover.cancel(id), { name: 'FailedPrecondition', message: /may be the last copy/ });
      await node.mover.cancel(id, undefined, undefined, true);
      await assert.rejects(adminOf(node).restore({ id, lostPool: 'one' }, call), /has moved more than once since/);
      await adminOf(node).restore({ id, lostPool: 'one', evenSo: true }, call);
      await using shown = await deviceOf(node, id);
      assert.equal(await digestOf(shown.devicePath), first);
    });
  }

  test('in another pool, by a move that its node knows nothing of any more: it is restored once that is cancelled by a second word', async () => {
    using scratch = new Scratch('trashed');
    const { first } = await waitingInPool(scratch);
    for (const notes of ['moves', 'moved']) rmSync(scratch.join('data', notes), { recursive: true });
    await using node = await Node.open(scratch, [sized('two'), sized('three')]);
    const restore = (evenSo: boolean) => adminOf(node).restore({ id, lostPool: 'one', evenSo }, call);
    for (const evenSo of [false, true]) {
      await assert.rejects(restore(evenSo), {
        name: 'FailedPrecondition',
        message: /pool two has all of volume .* that this node knows nothing of.* move cancel \S+ --even-so/,
      });
    }
    assert.ok(await isWhole(node.pools.get('two')));
    await node.mover.cancel(id, undefined, undefined, true);
    await restore(true);
    await using shown = await deviceOf(node, id);
    assert.equal(await digestOf(shown.devicePath), first);
  });

  test('in another pool, which has an empty disk by now: it is restored, as nothing waits any more', async () => {
    using scratch = new Scratch('trashed');
    const { first } = await waitingInPool(scratch);
    rmSync(scratch.join('two.img'));
    rmSync(scratch.join('data/pools/two.id'));
    await using node = await Node.open(scratch, [sized('two'), sized('three')]);
    await adminOf(node).restore({ id, lostPool: 'one', evenSo: true }, call);
    await using shown = await deviceOf(node, id);
    assert.equal(await digestOf(shown.devicePath), first);
  });

  test('from another node: the word that the node is lost is refused, and the later copy becomes it', async () => {
    using scratch = new Scratch('trashed');
    const broker = new Broker();
    const volume = blockSpec.id;
    const poolNames = ['data', 'other'];
    let latest: string;
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
      await using a = await MovingNode.open(scratch, broker, 'a');
      await b.pools.get('other').create(blockSpec);
      await order(b, a, volume);
      assert.equal((await a.ended(volume)).job.state, 'done');
      latest = await written(a, volume);
      refuseVolumes(b.pool);
      await order(a, b, volume);
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(volume)).why, 'given'));
    }
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    await assert.rejects(adminOf(b).restore({ id: volume, lostNode: 'a' }, call), {
      name: 'FailedPrecondition',
      message: /waits in pool data.* move finish .* --node-is-lost a.* move cancel .* --node-is-lost a --even-so/,
    });
    assert.equal((await b.mover.finish(volume, { lostNode: 'a' })).state, 'done');
    await using shown = await deviceOf(b, volume);
    assert.equal(await digestOf(shown.devicePath), latest);
  });
});
