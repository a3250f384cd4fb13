import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { type Digests, id, idOf, Node, refuseCommits, sized, withSnapshots } from './following-node.ts';
import { movesOf } from './two-pools.ts';

/* Pools that are away, that open while a call looks at the others, or whose disks come back as they were before. */

const threePools = ['one', 'two', 'three'].map((name) => sized(name));
const draftOf = (name: string) => `${idOf(name)}.copy`;
const draftsIn = (scratch: Scratch, pool: string) => readdirSync(scratch.join('data/pools', pool, 'tmp'));

/** While pool two is asked for the mark of a snapshot, all pools open. */
function openMeanwhile(node: Node, away: string[]): void {
  const two = movesOf(node.pools.get('two')).snapshots;
  const stateOf = two.stateOf.bind(two);
  mock.method(two, 'stateOf', async (...args: Parameters<typeof stateOf>) => {
    away.length = 0;
    await eventually(() => assert.deepEqual(node.pools.closed(), []));
    return stateOf(...args);
  });
}

/** All has been copied to pool two, and is not handed over. */
async function copied(node: Node): Promise<void> {
  const target = movesOf(node.pools.get('two')).snapshots;
  const receive = target.receive.bind(target);
  const isThere = Promise.withResolvers<void>();
  const refused = mock.method(target, 'receive', async (...[record, arrival]: Parameters<typeof receive>) => {
    const incoming = await receive(record, arrival);
    incoming.confirm = async () => {
      isThere.resolve();
      throw new Unavailable('pool two does not answer.');
    };
    return incoming;
  });
  await node.mover.start(id, 'two', undefined, true);
  await isThere.promise;
  refused.mock.restore();
}

async function handedOver(node: Node): Promise<void> {
  refuseCommits(node.pools.get('two'));
  await node.mover.start(id, 'two', undefined, true);
  await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
}

describe('a snapshot that is deleted', () => {
  test('does not come back from a pool that opens while it is deleted', async () => {
    using scratch = new Scratch('opening');
    {
      await using node = await Node.open(scratch);
      await withSnapshots(node);
      mock.method(movesOf(node.pools.get('one')).snapshots, 'settle', async () => {
        throw new Unavailable('pool one does not answer.');
      });
      await node.mover.start(id, 'two', undefined, true);
      await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool one does not answer.'));
    }
    const away = ['one'];
    await using node = await Node.open(scratch, undefined, away);
    openMeanwhile(node, away);
    await node.remove(idOf('young'));
    await node.ended();
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old']);
    await eventually(() => assert.deepEqual(movesOf(node.pools.get('one')).snapshots.all(id), []));
  });

  test('leaves no copy in a pool that was away, though its move had been cancelled', async () => {
    using scratch = new Scratch('opening');
    {
      await using node = await Node.open(scratch);
      await withSnapshots(node);
      await copied(node);
    }
    const away = ['two'];
    await using node = await Node.open(scratch, undefined, away);
    await node.mover.cancel(id);
    await node.remove(idOf('young'));
    away.length = 0;
    await eventually(() => assert.deepEqual(node.pools.closed(), []));
    await eventually(() => assert.ok(!draftsIn(scratch, 'two').includes(draftOf('young'))));
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old']);
    await eventually(() => assert.deepEqual(readdirSync(scratch.join('data/deleted-snapshots')), []));
  });

  test('does not come back with a disk that is as it was before, while a third pool is away', async () => {
    using scratch = new Scratch('opening');
    {
      await using node = await Node.open(scratch, threePools);
      await withSnapshots(node);
    }
    cpSync(scratch.join('one.img'), scratch.join('one.before'));
    {
      await using node = await Node.open(scratch, threePools);
      await node.mover.start(id, 'two', undefined, true);
      await node.ended();
    }
    {
      await using node = await Node.open(scratch, threePools, ['one']);
      await node.remove(idOf('young'));
    }
    cpSync(scratch.join('one.before'), scratch.join('one.img'));
    await using node = await Node.open(scratch, threePools, ['three']);
    await eventually(async () => assert.deepEqual(await node.listed(), ['two/middle', 'two/old']));
  });
});

describe('a snapshot that is deleted after several moves', () => {
  test('leaves nothing in the pool of an order before the last one', async () => {
    using scratch = new Scratch('opening');
    {
      await using node = await Node.open(scratch, threePools);
      await withSnapshots(node);
    }
    cpSync(scratch.join('one.img'), scratch.join('one.before'));
    {
      await using node = await Node.open(scratch, threePools);
      refuseCommits(node.pools.get('three'));
      await node.mover.start(id, 'three', undefined, true);
      await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool three is full.'));
    }
    cpSync(scratch.join('one.before'), scratch.join('one.img'));
    const left = [sized('one'), sized('two')];
    {
      await using node = await Node.open(scratch, left);
      await node.mover.cancel(id).catch(() => undefined);
      await node.mover.cancel(id, undefined, undefined, true);
      await node.mover.start(id, 'two', undefined, true);
      await node.ended();
      assert.deepEqual(await node.listed(), ['two/middle', 'two/old', 'two/young']);
      await node.remove(idOf('young'));
    }
    await using node = await Node.open(scratch, threePools);
    await eventually(async () => assert.deepEqual(await movesOf(node.pools.get('three')).snapshots.arriving(), []));
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old']);
  });

  test('does not come back with a lost pool that alone had it, and another one may have its name', async () => {
    using scratch = new Scratch('opening');
    {
      await using node = await Node.open(scratch);
      await withSnapshots(node);
      await node.mover.start(id, 'two', undefined, true);
      await node.ended();
      await node.mover.start(id, 'one', undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
    }
    const opened = () => Node.open(scratch, [sized('one')]);
    {
      await using node = await opened();
      await assert.rejects(node.snapshot('young', randomBytes(1 << 20), 0n), /is in a pool of this node that is not/);
      await node.remove(idOf('young'));
    }
    {
      await using node = await Node.open(scratch);
      assert.deepEqual(await node.listed(), ['two/middle', 'two/old']);
      const two = movesOf(node.pools.get('two')).snapshots;
      await eventually(() => assert.equal(two.find(idOf('young')), undefined));
    }
    await using node = await opened();
    await node.snapshot('young', randomBytes(1 << 20), 0n);
    assert.deepEqual(await node.listed(), ['one/young']);
  });

  test('does not come back with a pool of an order that is forgotten, and another one may have its name', async () => {
    using scratch = new Scratch('opening');
    const forget = () => rmSync(scratch.join('data/snapshot-moves'), { recursive: true });
    {
      await using node = await Node.open(scratch, threePools);
      await withSnapshots(node);
      await node.mover.start(id, 'three', undefined, true);
      await node.ended();
    }
    cpSync(scratch.join('three.img'), scratch.join('three.before'));
    {
      await using node = await Node.open(scratch, threePools);
      await node.mover.start(id, 'two', undefined, true);
      await node.ended();
    }
    forget();
    {
      await using node = await Node.open(scratch, [sized('one'), sized('two')]);
      await node.remove(idOf('young'));
    }
    cpSync(scratch.join('three.before'), scratch.join('three.img'));
    {
      await using node = await Node.open(scratch, threePools);
      assert.deepEqual(await node.listed(), ['two/middle', 'two/old']);
      const back = movesOf(node.pools.get('three')).snapshots;
      await eventually(() => assert.equal(back.find(idOf('young')), undefined));
      const young = await node.snapshot('young', Buffer.alloc(4096, 1), 0n);
      assert.equal(await node.digest('young'), young);
    }
    await using node = await Node.open(scratch, threePools);
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old', 'two/young']);
    await node.remove(idOf('young'));
  });
});

describe('snapshots of which a copy is in a pool that is away', () => {
  test('follow their volume only once that pool is there', async () => {
    using scratch = new Scratch('opening');
    {
      await using node = await Node.open(scratch, threePools);
      await withSnapshots(node);
      await node.mover.start(id, 'two', undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
    }
    const away = ['one'];
    await using node = await Node.open(scratch, threePools, away);
    for (const to of ['two', 'three'])
      await assert.rejects(node.mover.start(id, to, undefined, true), { name: 'Unavailable', message: /pool one/ });
    away.length = 0;
    await eventually(() => assert.deepEqual(node.pools.closed(), []));
    await node.mover.start(id, 'three', undefined, true);
    await node.ended();
    assert.deepEqual(await node.listed(), ['three/middle', 'three/old', 'three/young']);
  });

  test('keep what was copied where a cancel is refused', async () => {
    using scratch = new Scratch('opening');
    let young: string;
    {
      await using node = await Node.open(scratch, threePools);
      ({ young } = await withSnapshots(node));
      await handedOver(node);
    }
    await using node = await Node.open(scratch, threePools, ['three']);
    const end = refuseCommits(node.pools.get('two'));
    await assert.rejects(node.mover.cancel(id), { name: 'Unavailable', message: /pool three/ });
    assert.ok(draftsIn(scratch, 'two').includes(draftOf('young')));
    end();
    await node.ended();
    assert.equal((await node.pools.findSnapshot(idOf('young')))?.pool.name, 'two');
    assert.equal(await node.digest('young'), young);
  });

  test('are all where they were after a cancel during which that pool opens, or it is refused', async () => {
    using scratch = new Scratch('opening');
    {
      await using node = await Node.open(scratch);
      await withSnapshots(node);
      await handedOver(node);
      await node.snapshot('late', Buffer.alloc(4096, 1), 0n);
    }
    const away = ['one'];
    await using node = await Node.open(scratch, undefined, away);
    openMeanwhile(node, away);
    await node.mover.cancel(id).catch(() => node.mover.cancel(id));
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young', 'two/late']);
    assert.deepEqual(draftsIn(scratch, 'two'), []);
  });
});

test('copies on a disk that is as it was before the move go with the next order', async () => {
  using scratch = new Scratch('opening');
  {
    await using node = await Node.open(scratch, threePools);
    await withSnapshots(node);
  }
  cpSync(scratch.join('one.img'), scratch.join('one.before'));
  {
    await using node = await Node.open(scratch, threePools);
    await node.mover.start(id, 'two', undefined, true);
    await node.ended();
  }
  cpSync(scratch.join('one.before'), scratch.join('one.img'));
  await using node = await Node.open(scratch, threePools);
  await node.snapshot('late', Buffer.alloc(4096, 1), 0n);
  await node.mover.start(id, 'three', undefined, true);
  await node.ended();
  assert.deepEqual(await node.listed(), ['three/late', 'three/middle', 'three/old', 'three/young']);
  assert.deepEqual(movesOf(node.pools.get('one')).snapshots.all(id), []);
});

describe('copies on a disk that is as it was before, while the pool that they moved to is lost', () => {
  /** All is in pool two, and pool one has its disk as it was before. */
  async function asBefore(scratch: Scratch): Promise<Digests> {
    let digests: Digests;
    {
      await using node = await Node.open(scratch);
      digests = await withSnapshots(node);
    }
    cpSync(scratch.join('one.img'), scratch.join('one.before'));
    {
      await using node = await Node.open(scratch);
      await node.mover.start(id, 'two', undefined, true);
      await node.ended();
    }
    cpSync(scratch.join('one.before'), scratch.join('one.img'));
    return digests;
  }

  test('are the snapshots again after a cancel, and the volume by a second word; those in the other pool are never used again', async () => {
    using scratch = new Scratch('opening');
    const digests = await asBefore(scratch);
    {
      await using node = await Node.open(scratch, undefined, ['two']);
      await assert.rejects(node.mover.cancel(id), { name: 'Unavailable', message: /pool two/ });
      assert.deepEqual(await node.listed(), []);
    }
    {
      await using node = await Node.open(scratch, [sized('one')]);
      // A disk says nothing of who has it: only an operator does.
      await node.mover.start(id, 'one', undefined, true).catch(() => undefined);
      assert.deepEqual(await node.listed(), []);
      await assert.rejects(node.pools.findSnapshot(idOf('young')), /holdfast move cancel/);
      await node.mover.cancel(id);
      assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young']);
      for (const [name, digest] of Object.entries(digests)) assert.equal(await node.digest(name), digest);
      // The volume may have been written to in the other pool.
      await assert.rejects(node.mover.cancel(id), {
        name: 'FailedPrecondition',
        message: /pool one has an earlier copy of volume .* move cancel .* --even-so/,
      });
      assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'old');
      await node.mover.cancel(id, undefined, undefined, true);
      assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, undefined);
    }
    await using node = await Node.open(scratch);
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young']);
    await node.mover.cancel(id);
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old', 'one/young']);
    assert.deepEqual(movesOf(node.pools.get('two')).snapshots.all(id), []);
  });

  test('stay as they are whatever is ordered', async () => {
    using scratch = new Scratch('opening');
    {
      await using node = await Node.open(scratch, threePools);
      await withSnapshots(node);
    }
    cpSync(scratch.join('one.img'), scratch.join('one.before'));
    {
      await using node = await Node.open(scratch, threePools);
      await node.mover.start(id, 'two', undefined, true);
      await node.ended();
      await node.mover.start(id, 'three', undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
    }
    cpSync(scratch.join('one.before'), scratch.join('one.img'));
    await using node = await Node.open(scratch, [sized('one'), sized('three')]);
    await node.mover.start(id, 'three', undefined, true);
    const { left } = (await node.ended()).snapshots;
    assert.deepEqual(left.map(({ name }) => name).sort(), ['middle', 'old', 'young']);
    assert.deepEqual(await node.listed(), []);
  });

  test('are deleted once all pools are open, and do not come back with the other one, though the order is forgotten', async () => {
    using scratch = new Scratch('opening');
    await asBefore(scratch);
    rmSync(scratch.join('data/snapshot-moves'), { recursive: true });
    {
      await using node = await Node.open(scratch, undefined, ['two']);
      await assert.rejects(node.remove(idOf('young')), { name: 'Unavailable', message: /pool two/ });
      assert.ok(movesOf(node.pools.get('one')).snapshots.find(idOf('young')) !== undefined);
    }
    {
      await using node = await Node.open(scratch, [sized('one')]);
      await node.remove(idOf('young'));
      await node.mover.cancel(id);
      assert.deepEqual(await node.listed(), ['one/middle', 'one/old']);
    }
    await using node = await Node.open(scratch);
    await eventually(() => assert.equal(movesOf(node.pools.get('two')).snapshots.find(idOf('young')), undefined));
    assert.deepEqual(await node.listed(), ['one/middle', 'one/old']);
  });
});
