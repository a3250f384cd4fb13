import assert from 'node:assert/strict';
import { describe, mock, test } from 'node:test';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { fill, useUpDirectories } from '../support/full.ts';
import { Scratch } from '../support/scratch.ts';
import { id, idOf, mib, Node, sized, withSnapshots } from './following-node.ts';
import { movesOf } from './two-pools.ts';

/** Takes all room of the pool that all goes to, so that nothing can be written there. */
function fillTarget(scratch: Scratch): void {
  useUpDirectories(scratch.join('data/pools/two/tmp/others'));
  fill(scratch.join('data/pools/two/foreign'));
}

async function openNode(scratch: Scratch): Promise<Node> {
  return Node.open(scratch, [sized('one'), sized('two', 512n * mib)]);
}

describe('a pool that is full once something was handed over to it', () => {
  for (const isCutShort of [false, true]) {
    test(`takes a volume, ${isCutShort ? 'also in a second try' : 'at once'}`, async () => {
      using scratch = new Scratch('full');
      await using node = await openNode(scratch);
      await withSnapshots(node);
      const one = movesOf(node.pools.get('one'));
      const give = one.give.bind(one);
      let tries = 0;
      mock.method(one, 'give', async (...args: Parameters<typeof give>) => {
        const answer = await give(...args);
        if (++tries > 1) return answer;
        fillTarget(scratch);
        if (isCutShort) throw new Unavailable('the answer is lost.');
        return answer;
      });
      await node.mover.start(id, 'two', undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done', String(node.sight().trouble)));
      assert.equal(tries, isCutShort ? 2 : 1);
      assert.equal((await node.pools.require(id)).pool.name, 'two');
    });
  }

  test('takes a snapshot', async () => {
    using scratch = new Scratch('full');
    await using node = await openNode(scratch);
    const { young } = await withSnapshots(node);
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    const one = movesOf(node.pools.get('one')).snapshots;
    const give = one.give.bind(one);
    let isFull = false;
    mock.method(one, 'give', async (...args: Parameters<typeof give>) => {
      const answer = await give(...args);
      if (!isFull) fillTarget(scratch);
      isFull = true;
      return answer;
    });
    await node.mover.start(id, 'two', undefined, true);
    await node.ended();
    assert.ok(isFull);
    assert.equal((await node.pools.findSnapshot(idOf('young')))?.pool.name, 'two');
    assert.equal(await node.digest('young'), young);
  });
});
