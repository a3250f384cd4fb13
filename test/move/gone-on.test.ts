import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { digestIn, written } from './devices.ts';
import { Broker, blockSpec, MovingNode, order } from './two-nodes.ts';
import { isWhole, movesOf } from './two-pools.ts';

test('a whole copy of a failed move within a node does not become the volume once that has gone to another node', async () => {
  using scratch = new Scratch('gone-on');
  const broker = new Broker();
  const { id } = blockSpec;
  await using a = await MovingNode.open(scratch, broker, 'a', { poolNames: ['data', 'other'], nodeName: 'a' });
  await using b = await MovingNode.open(scratch, broker, 'b');
  const [data, other] = [a.pool, a.pools.get('other')];
  await data.create(blockSpec);
  await written(a, id);
  const moves = movesOf(data);
  const { give } = moves;
  moves.give = async () => {
    throw new Error('EIO: i/o error');
  };
  await a.mover.start(id, 'other', undefined);
  assert.equal((await a.ended(id)).job.state, 'failed');
  moves.give = give;
  assert.ok(await isWhole(other, id));
  const latest = await written(a, id);
  await order(a, b, id);
  assert.equal((await b.ended(id)).job.state, 'done');
  await eventually(async () => assert.equal(await data.find(id), undefined));

  const refused = {
    name: 'FailedPrecondition',
    message:
      /has gone on to node b since: what pool other has of it .* move cancel \S+ --node a --even-so\. .* trash restore \S+ --node a --node-is-lost b /,
  };
  for (const isEvenSo of [false, true])
    await assert.rejects(a.mover.finish(id, { lostPool: 'data' }, isEvenSo), refused);
  await assert.rejects(order(b, a, id), refused);
  await assert.rejects(a.mover.cancel(id), refused);
  assert.equal(await a.pools.find(id), undefined);

  await a.mover.cancel(id, undefined, undefined, true);
  // Node b is lost.
  const admin = adminService({ nodeId: 'a', pools: a.pools, objects: a.objects, mover: a.mover });
  await admin.restore({ id, lostNode: 'b' }, { deadline: undefined, note: () => undefined });
  assert.equal(await digestIn(a, id), latest);
});
