import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { ResourceExhausted, Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id, type NodeName } from './histories/place.ts';
import { World } from './histories/world.ts';
import { movesOf } from './two-pools.ts';

/* Orders by which a node gives its copies up, as a disk of it is said to be lost, and by which another copy does not become the volume then. */

async function write(world: World): Promise<void> {
  await world.startPod();
  world.writePod();
  await world.stopPod();
}

async function takeOut(world: World, node: NodeName): Promise<void> {
  await world.whileDown(node, () => {
    world.configured.get(node)?.delete('data');
    world.disks.takeOut(node, 'data');
  });
  await world.fleet.told();
}

async function putBack(world: World, node: NodeName): Promise<void> {
  await world.whileDown(node, () => {
    world.configured.get(node)?.add('data');
    world.disks.putIn(node, 'data');
  });
  await world.fleet.told();
}

/** All of version 1 waits on node b, and node b is away. @returns the id of the move */
async function waiting(world: World): Promise<string> {
  world.refuseGiving({ node: 'a', pool: 'data' });
  await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
  await eventually(() => assert.notEqual(world.node('b').sight(id).job.whole, undefined));
  const { moveId } = world.node('b').sight(id).job;
  await world.down('b');
  return moveId;
}

/** All of version 1 waits on node b; node a has ended its fence and had version 2 written, and its pool is out of the configuration. */
async function usedAgain(world: World): Promise<void> {
  const moveId = await waiting(world);
  await world.whileDown('a', () => undefined);
  await movesOf(world.node('a').pools.get('data')).open(id, moveId);
  await write(world);
  await takeOut(world, 'a');
  await world.up('b');
  await world.fleet.told();
}

/** All of version 1 waits on node b; the fence of node a stands, and its pool is out of the configuration. */
async function fenced(world: World): Promise<void> {
  await waiting(world);
  await takeOut(world, 'a');
  await world.up('b');
  await world.fleet.told();
}

/** The volume has moved to node b, where version 2 was written, and the pool is out of the configuration. */
async function movedOn(world: World): Promise<void> {
  await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
  await world.rest(10_000);
  await world.fleet.told();
  world.record('b');
  await write(world);
  await takeOut(world, 'b');
}

const finish = (world: World) => world.fleet.command({ change: 'finish', volume: id, node: 'b', lostPool: 'data' });
const restore = (world: World) => world.fleet.command({ change: 'restore', volume: id, node: 'a', lostPool: 'data' });
const cancel = (world: World, node: NodeName, evenSo = false) =>
  world.fleet.command({ change: 'cancel', volume: id, node, evenSo });
const noteOf = (world: World, node: NodeName) => world.node(node).mover.copies.noteOf(id);
const takenBack = (world: World) => world.fleet.takenBack(id);

async function usable(world: World) {
  return (await world.usable()).map(({ node, pool, version }) => [node, pool, version]);
}

/** A node goes away as soon as the other one has given its copies up. */
function goAwayBehindWord(world: World, node: NodeName): void {
  const disclaim = world.fleet.moves.disclaim.bind(world.fleet.moves);
  const cut = mock.method(world.fleet.moves, 'disclaim', async (...args: Parameters<typeof disclaim>) => {
    const word = await disclaim(...args);
    cut.mock.restore();
    await world.down(node);
    return word;
  });
}

/** Node a has given its copies up, and node b, whose copy was to become the volume, is away. */
async function cutFinishShort(world: World): Promise<void> {
  await usedAgain(world);
  goAwayBehindWord(world, 'b');
  await assert.rejects(finish(world), { message: /Node b is away/ });
}

/** Node b has given its copies up, and node a, whose copy was to be restored, is away. */
async function cutRestoreShort(world: World): Promise<void> {
  await movedOn(world);
  goAwayBehindWord(world, 'a');
  await assert.rejects(restore(world), { message: /Node a is away/ });
}

describe('an order that says that a disk is lost', () => {
  test('to finish a move has nothing given up if the target cannot finish it', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    await usedAgain(world);
    const broken = mock.method(movesOf(world.node('b').pools.get('data')), 'receive', async () => {
      throw new Unavailable('the disk does not answer');
    });
    await assert.rejects(finish(world), { message: /the disk does not answer/ });
    broken.mock.restore();
    assert.equal((await noteOf(world, 'a'))?.generation ?? 0, 0);
    assert.equal(await takenBack(world), undefined);
    await putBack(world, 'a');
    assert.deepEqual(await usable(world), [['a', 'data', 2]]);
    await cancel(world, 'b');
    assert.deepEqual(await usable(world), [['a', 'data', 2]]);
  });

  test('leaves a move that was tried as it was, and that goes on if the disk is back', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    await usedAgain(world);
    const { mover } = world.node('b');
    await mover.finish(id, { lostNode: 'a' }, false, true);
    assert.deepEqual([world.node('b').sight(id).job.state, await usable(world)], ['running', []]);
    assert.equal((await noteOf(world, 'b'))?.generation ?? 0, 0);
    await putBack(world, 'a');
    await eventually(async () => assert.deepEqual(await usable(world), [['b', 'data', 2]]));
  });

  test('to restore a copy has nothing given up if its pool has no room for it', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    await movedOn(world);
    const before = await noteOf(world, 'b');
    const full = mock.method(world.node('a').pools.get('data'), 'requireRestorable', async () => {
      throw new ResourceExhausted('no room');
    });
    await assert.rejects(restore(world), { message: /no room/ });
    full.mock.restore();
    assert.deepEqual(await noteOf(world, 'b'), before);
    assert.equal(await takenBack(world), undefined);
    await putBack(world, 'b');
    assert.deepEqual(await usable(world), [['b', 'data', 2]]);
  });

  test('to restore a copy has nothing given up if that is not in the trash yet; a cancel takes it back, by a second word', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    world.refuseSettling({ node: 'a', pool: 'data' });
    await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    await eventually(async () => assert.equal((await world.usable())[0]?.node, 'b'));
    await write(world);
    await takeOut(world, 'b');
    // The end of a move is forgotten after a week.
    await world.whileDown('b', () => rmSync(scratch.join('data-b', 'moves'), { recursive: true }));
    await world.fleet.told();
    const before = await noteOf(world, 'b');
    await assert.rejects(restore(world), { message: /has a copy of volume .* that is not the volume/ });
    await assert.rejects(cancel(world, 'a'), {
      message: /has come to node b, as that has noted,.* Put that pool and its disk back.* --even-so/,
    });
    assert.deepEqual(await noteOf(world, 'b'), before);
    await cancel(world, 'a', true);
    assert.deepEqual(await usable(world), [['a', 'data', 1]]);
    await putBack(world, 'b');
    await world.fleet.keep();
    assert.deepEqual(await usable(world), [['a', 'data', 1]]);
  });

  test('to cancel has nothing given up if the node of the copy refuses it', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    await cutRestoreShort(world);
    await putBack(world, 'b');
    await world.up('a');
    await world.fleet.told();
    const before = await noteOf(world, 'a');
    await assert.rejects(cancel(world, 'b'), { message: /--even-so/ });
    assert.deepEqual(await noteOf(world, 'a'), before);
  });
});

describe('a disk that is as it was before the volume came to it', () => {
  test('has a part that goes by a second word, and then the copy of the switch is restored', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    world.refuseCommits({ node: 'b', pool: 'data' });
    await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    const given = async () => (await movesOf(world.node('a').pools.get('data')).stateOf(id)).why;
    await eventually(async () => assert.equal(await given(), 'given'));
    let saved = '';
    await world.whileDown('b', () => {
      saved = world.disks.save('b', 'data');
    });
    await world.rest(15_000);
    await world.fleet.told();
    world.record('b');
    await write(world);
    await world.whileDown('b', () => world.disks.bringBack('b', 'data', saved));
    await world.fleet.told();
    await assert.rejects(restore(world), { message: /pool data of this node has volume \S+, or a part of it/ });
    await assert.rejects(cancel(world, 'b'), {
      message: /had come to this pool.* --node b --even-so removes.* trash restore \S+ --node a --pool-is-lost data /,
    });
    await cancel(world, 'b', true);
    await restore(world);
    assert.deepEqual(await usable(world), [['a', 'data', 1]]);
  });
});

describe('an order that was cut short behind the word of the node whose disk was said to be lost, and that disk is back', () => {
  test('of a finish: the words say so, and lead to the later copy', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    await cutFinishShort(world);
    assert.equal((await noteOf(world, 'a'))?.at, 'b');
    await world.up('b');
    await putBack(world, 'a');
    await world.fleet.told();
    assert.deepEqual(await usable(world), []);
    // It has no copy of it, and no note: it has not taken the volume back.
    await world.fleet.keep();
    assert.equal(await takenBack(world), undefined);
    const way = /given up .*--node b --even-so.*(--node a --even-so|with this node as --node)/;
    await assert.rejects(finish(world), { message: way });
    for (const evenSo of [false, true]) await assert.rejects(cancel(world, 'a', evenSo), { message: way });
    await assert.rejects(cancel(world, 'b'), { message: /given up .*--even-so.*--node a --even-so/ });
    await cancel(world, 'b', true);
    await cancel(world, 'a', true);
    assert.deepEqual(await usable(world), [['a', 'data', 2]]);
    await world.fleet.told();
    await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    await world.rest(10_000);
    assert.deepEqual(await usable(world), [['b', 'data', 2]]);
  });

  test('of a finish: one cancel leads to the copy of that disk, if its fence stands', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    await fenced(world);
    goAwayBehindWord(world, 'b');
    await assert.rejects(finish(world), { message: /Node b is away/ });
    await world.up('b');
    await putBack(world, 'a');
    await world.fleet.told();
    assert.deepEqual(await usable(world), []);
    await world.fleet.keep();
    await cancel(world, 'b', true);
    assert.deepEqual(await usable(world), [['a', 'data', 1]]);
    await assert.rejects(cancel(world, 'a', true), { code: 'NOT_FOUND', message: /is not moving/ });
  });

  test('of a finish: without that disk the same command goes on', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    await cutFinishShort(world);
    await world.up('b');
    await world.fleet.told();
    await finish(world);
    assert.deepEqual(await usable(world), [['b', 'data', 1]]);
    await putBack(world, 'a');
    await world.fleet.keep();
    assert.deepEqual(await usable(world), [['b', 'data', 1]]);
  });

  test('of a restore: the words say so, and lead to the later copy', async () => {
    using scratch = new Scratch('cut-short-word');
    await using world = await World.start(scratch);
    await cutRestoreShort(world);
    await world.up('a');
    await putBack(world, 'b');
    await world.fleet.told();
    assert.deepEqual(await usable(world), []);
    await world.fleet.keep();
    assert.equal(await takenBack(world), undefined);
    const way = /given up .*--node b --even-so/;
    await assert.rejects(restore(world), { message: way });
    await assert.rejects(cancel(world, 'b'), { message: way });
    await cancel(world, 'b', true);
    assert.deepEqual(await usable(world), [['b', 'data', 2]]);
    await world.fleet.command({ change: 'move', volume: id, node: 'a', toPool: 'data' });
    await world.rest(10_000);
    assert.deepEqual(await usable(world), [['a', 'data', 2]]);
  });
});
