import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, mock, test } from 'node:test';
import { listMoves, showMove } from '../../src/admin/moving.ts';
import type { Moving } from '../../src/admin/protocol.ts';
import { adminService } from '../../src/admin/service.ts';
import { printFinished } from '../../src/cli/move.ts';
import { moveRow } from '../../src/cli/output/tables/moves.ts';
import { deadlineOf } from '../../src/move/in-time.ts';
import { sightWithout } from '../../src/move/mover.ts';
import { readUnderBy } from '../../src/move/moving.ts';
import { copySuffix } from '../../src/pool/records/layout.ts';
import { ResourceExhausted, Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, digestOf } from './devices.ts';
import { Broker, blockSpec, filled, introduce, MovingNode, order } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

/* Moves between two nodes of which one loses disks between hand-over and commit. */

const mib = 1n << 20n;
const { id } = blockSpec;

/** A node that takes connections, and says nothing. */
class SilentNetwork implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((socket) => {
    socket.on('error', () => undefined);
    this.#sockets.add(socket);
  });

  static async open(): Promise<SilentNetwork> {
    const network = new SilentNetwork();
    network.#server.listen(0, '127.0.0.1');
    await once(network.#server, 'listening');
    return network;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

/** Nothing is committed there. */
function failCommits(node: MovingNode): void {
  const moves = movesOf(node.pool);
  const receive = moves.receive.bind(moves);
  moves.receive = async (...args) => {
    const incoming = await receive(...args);
    incoming.commit = async () => {
      throw new Error('the disk has failed');
    };
    return incoming;
  };
}

/** Moves the volume from a to b until it is handed over, and commits it nowhere. @returns the id of the move */
async function handedOver(a: MovingNode, b: MovingNode): Promise<string> {
  await filled(a);
  return handOver(a, b);
}

async function handOver(a: MovingNode, b: MovingNode): Promise<string> {
  failCommits(b);
  const moveId = await order(a, b, id);
  await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given'));
  return moveId;
}

async function digestIn(node: MovingNode): Promise<string> {
  await using shown = await deviceOf(node, id);
  return digestOf(shown.devicePath);
}

/** The volume is handed over by a, b commits nothing, and both drivers have stopped. @returns its digest */
async function stoppedOnceGiven(scratch: Scratch, broker: Broker): Promise<string> {
  await using b = await MovingNode.open(scratch, broker, 'b');
  await using a = await MovingNode.open(scratch, broker, 'a');
  await filled(a);
  const digest = await digestIn(a);
  await handOver(a, b);
  return digest;
}

/** The disks of a node are lost. */
async function loseDisks(scratch: Scratch, node: MovingNode, which: 'all' | 'pool'): Promise<void> {
  await node[Symbol.asyncDispose]();
  await rm(scratch.join(node.name), { recursive: true, force: true });
  const own = which === 'all' ? scratch.join(`data-${node.name}`) : scratch.join(`data-${node.name}`, 'pools');
  await rm(own, { recursive: true, force: true });
}

/** The nodes are introduced until the move has failed. */
async function failed(a: MovingNode, b: MovingNode, moveId: string): Promise<void> {
  await eventually(async () => {
    await introduce(a, b, { id, moveId });
    assert.equal(b.sight(id).job.state, 'failed');
  });
}

describe('a move whose source loses its disks between hand-over and commit', () => {
  for (const which of ['all', 'pool'] as const) {
    test(`${which === 'all' ? 'with its own one' : 'but its own one'}: all that has come is kept`, async () => {
      using scratch = new Scratch('nodes');
      const broker = new Broker();
      let moveId: string;
      {
        await using b = await MovingNode.open(scratch, broker, 'b');
        const a = await MovingNode.open(scratch, broker, 'a');
        moveId = await handedOver(a, b);
        await loseDisks(scratch, a, which);
      }
      await using a = await MovingNode.open(scratch, broker, 'a');
      await using b = await MovingNode.open(scratch, broker, 'b');
      await failed(a, b, moveId);
      assert.ok((await movesOf(b.pool).comingBytes(id)) > 0n);
      // The next start.
      await b.mover.resume();
      assert.ok((await movesOf(b.pool).comingBytes(id)) > 0n);
    });
  }

  test('what has come of a part is not kept', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using b = await MovingNode.open(scratch, broker, 'b');
    let moveId: string;
    {
      const before = await MovingNode.open(scratch, broker, 'a');
      // More than what is on its way at once: that comes although its source is gone.
      await filled(before, 24 << 20);
      moveId = await order(before, b, id, 4n * mib);
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
      await loseDisks(scratch, before, 'all');
    }
    await using a = await MovingNode.open(scratch, broker, 'a');
    await failed(a, b, moveId);
    assert.equal(await movesOf(b.pool).comingBytes(id), 0n);
  });
});

const listedOf = async (node: MovingNode) =>
  (await listMoves(node.mover)).moves.find((move) => move.id === id) ?? assert.fail();

/** What `move finish` prints. */
function printed(move: Moving): string[] {
  const lines: string[] = [];
  printFinished(
    { line: (text) => lines.push(text), problem: assert.fail, colours: false, width: undefined },
    move,
    false,
  );
  return lines;
}

describe('a copy whose source is lost between hand-over and commit', () => {
  const lost = { lostNode: 'a' };

  test('does not once its caller waits no more, however long its disk takes', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await stoppedOnceGiven(scratch, broker);
    await using b = await MovingNode.open(scratch, broker, 'b');
    const deadline = { at: new Date(Date.now() + 3_600_000), endMs: Number.POSITIVE_INFINITY };
    const moves = movesOf(b.pool);
    const receive = moves.receive.bind(moves);
    const slow = mock.method(moves, 'receive', async (...args: Parameters<typeof receive>) => {
      const incoming = await receive(...args);
      deadline.endMs = 0;
      return incoming;
    });
    await assert.rejects(b.mover.finish(id, { ...lost, deadline }), {
      name: 'Unavailable',
      message: /was not taken back in time, and is as it was/,
    });
    assert.equal((await moves.noted(id)).generation, 0);
    assert.equal(await b.pool.find(id), undefined);
    slow.mock.restore();
    assert.equal((await b.mover.finish(id, lost)).state, 'done');
  });

  test('and may have changed there since that was copied becomes it by a second word alone, which says of when it is', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await filled(a);
    const before = await digestIn(a);
    const beganAt = new Date().toISOString();
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      const give = mock.method(movesOf(a.pool), 'give', async () => {
        throw new Error('the disk has failed.');
      });
      await order(a, b, id);
      const { job } = await b.ended(id);
      assert.equal(job.state, 'failed');
      give.mock.restore();
    }
    await using _used = await deviceOf(a, id);
    await using b = await MovingNode.open(scratch, broker, 'b');
    const { at = '', fenceEndedAt = '' } = b.sight(id).job.whole ?? assert.fail();
    assert.ok(at >= beganAt && at <= fenceEndedAt, `${at} ${fenceEndedAt}`);
    await assert.rejects(b.mover.finish(id, lost), {
      name: 'FailedPrecondition',
      message: `volume ${id} may have been used again on node a, where its fence, or the move, had ended by ${fenceEndedAt}: the copy in pool data is as it was at ${at}, and has nothing that was written later. To make it the volume although that is so: --even-so.`,
    });
    const shown = async () => moveRow(await listedOf(b)).join(' ');
    assert.match(
      await shown(),
      new RegExp(`as it was on node a at ${at}, and could be used there again by ${fenceEndedAt}`),
    );
    const finished = showMove(sightWithout(await b.mover.finish(id, lost, true)));
    assert.equal(await digestIn(b), before);
    assert.deepEqual(printed(finished), [
      `${id} is in pool data, as it was at ${at} on node a. It could be used again there by ${fenceEndedAt}: later writes are lost.`,
    ]);
    assert.match(await shown(), /done .*as it was on node a at/);
  });

  test('and is seen to be usable there again becomes it by that word alone, too', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
    await filled(a);
    let moveId: string;
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      const give = mock.method(movesOf(a.pool), 'give', async () => {
        throw new Unavailable('the disk does not answer.');
      });
      moveId = await order(a, b, id);
      await eventually(() => assert.equal(b.sight(id).trouble, 'the disk does not answer.'));
      assert.equal(b.sight(id).job.whole?.fenceEndedAt, undefined);
      give.mock.restore();
    }
    // The other node was silent.
    await movesOf(a.pool).open(id, moveId);
    mock.method(a.pool, 'takeSnapshots', async () => {
      throw new Unavailable('the disk takes no snapshot.');
    });
    await using b = await MovingNode.open(scratch, broker, 'b');
    await introduce(a, b, { id, moveId });
    await eventually(() => assert.equal(b.sight(id).trouble, 'the disk takes no snapshot.'));
    await assert.rejects(b.mover.finish(id, lost), /may have been used again on node a, .* had ended by .* --even-so/);
    assert.equal((await b.mover.finish(id, lost, true)).state, 'done');
  });

  test('says so if an earlier driver has not noted of when it is', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await stoppedOnceGiven(scratch, broker);
    const path = scratch.join('data-b', 'moves', `${id}.json`);
    const { whole, ...job } = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify({ ...job, whole: { ...whole, at: undefined } }));
    await using b = await MovingNode.open(scratch, broker, 'b');
    const finished = showMove(sightWithout(await b.mover.finish(id, lost)));
    assert.deepEqual(printed(finished), [
      `${id} is in pool data, as it was when it was copied last, at a time that is not known, on node a.`,
    ]);
  });

  test('becomes the volume by the word of an operator, and the copy of the source that comes back is an earlier one', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    const before = await stoppedOnceGiven(scratch, broker);
    await using b = await MovingNode.open(scratch, broker, 'b');
    const late = { ...lost, deadline: deadlineOf(new Date(Date.now() - 1)) };
    await assert.rejects(b.mover.finish(id, late), { name: 'Unavailable', message: /was not taken back in time/ });
    for (const wrong of [{ lostNode: 'c' }, { lostPool: 'data' }]) {
      await assert.rejects(b.mover.finish(id, wrong), /is moving here from node a, and not from/);
    }
    assert.equal(b.sight(id).job.state, 'running');
    assert.equal((await b.mover.finish(id, lost)).state, 'done');
    assert.equal(await digestIn(b), before);
    const { generation } = (await movesOf(b.pool).stateOf(id)).mark;
    assert.ok(generation > 100_000, `${generation}`);
    assert.equal(await movesOf(b.pool).whereElse(id), undefined);
    assert.deepEqual(await b.mover.copies.look(id), {
      ...{ generation, isVolume: true, isHere: true, elsewhere: undefined },
      createdAt: (await b.pool.find(id))?.createdAt,
    });
    // As the controller tells it.
    await using a = await MovingNode.open(scratch, broker, 'a');
    const { createdAt } = (await a.pool.find(id)) ?? assert.fail();
    const by = { generation, node: 'b', at: new Date().toISOString(), createdAt };
    assert.equal(await a.mover.copies.outdate(id, by), true);
    assert.equal(await a.pool.find(id), undefined);
    assert.equal(a.leavings.nodeFor(id), undefined);
    const snapshots = await a.pool.listSnapshots(undefined, undefined, id);
    assert.deepEqual(snapshots, []);
  });

  test('is of a later generation than the copy there that became the volume by such a word before', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await stoppedOnceGiven(scratch, broker);
    let laterThan: number;
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      await a.mover.cancel(id, { lostNode: 'b' });
      laterThan = (await a.mover.copies.look(id)).generation;
    }
    await using b = await MovingNode.open(scratch, broker, 'b');
    await b.mover.finish(id, { ...lost, laterThan });
    assert.ok((await b.mover.copies.look(id)).generation > laterThan);
  });

  test('and that was to become the volume, and did not, becomes it by another word', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await stoppedOnceGiven(scratch, broker);
    const note = scratch.join('data-b', 'moved', `${id}.json`);
    mkdirSync(scratch.join('data-b', 'moved'), { recursive: true });
    writeFileSync(note, JSON.stringify({ format: 1, generation: 1_000_001, at: 'a' }));
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      await b.mover.finish(id, lost);
      assert.ok((await b.mover.copies.look(id)).generation > 1_000_001);
    }
  });

  test('is given up by its node once the source is there again, although it was to become the volume', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    let moveId: string;
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      await filled(a);
      moveId = await handOver(a, b);
    }
    mkdirSync(scratch.join('data-b', 'moved'), { recursive: true });
    const note = scratch.join('data-b', 'moved', `${id}.json`);
    writeFileSync(note, JSON.stringify({ format: 1, generation: 1_000_001, at: 'a' }));
    await using b = await MovingNode.open(scratch, broker, 'b');
    await introduce(a, b, { id, moveId });
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined);
    await assert.rejects(b.mover.finish(id, lost), { name: 'NotFound' });
  });

  test('does not if its driver does not say its generation', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      await using a = await MovingNode.open(scratch, broker, 'a');
      const close = movesOf(a.pool).close.bind(movesOf(a.pool));
      movesOf(a.pool).close = async (...args) => ({ ...(await close(...args)), generation: undefined });
      await filled(a);
      await handOver(a, b);
    }
    await using b = await MovingNode.open(scratch, broker, 'b');
    await assert.rejects(b.mover.finish(id, lost), /from a driver that is older/);
    assert.ok((await movesOf(b.pool).comingBytes(id)) > 0n);
  });
});

describe('a failed move that is ordered again to another pool', () => {
  const poolNames = ['data', 'other'];
  const orderTo = (a: MovingNode, b: MovingNode, moveId: string, to: string) =>
    introduce(a, b, { id, moveId }, 'order').then(() =>
      b.mover.startFrom({ id, moveId, node: a.name, to, ticket: '', limitBytesPerSecond: undefined }),
    );

  test('leaves no copy in the first one, and goes on after a restart of its source', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    const data = movesOf(b.pool);
    const receive = data.receive.bind(data);
    data.receive = async (...args) => {
      const incoming = await receive(...args);
      incoming.fit = async () => {
        throw new ResourceExhausted('the pool is full');
      };
      return incoming;
    };
    const moveId = randomUUID();
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      await filled(a);
      await orderTo(a, b, moveId, 'data');
      assert.equal((await b.ended(id)).job.state, 'failed');
      assert.ok((await data.comingNote(id)) !== undefined);
      {
        await using _used = await deviceOf(a, id);
        await orderTo(a, b, moveId, 'other');
        assert.equal(await data.comingNote(id), undefined);
      }
    }
    await using a = await MovingNode.open(scratch, broker, 'a');
    await eventually(async () => {
      await introduce(a, b, { id, moveId });
      assert.notEqual(b.sight(id).job.state, 'running');
    });
    assert.deepEqual([b.sight(id).job.state, b.sight(id).job.to], ['done', 'other']);
  });

  test('and was handed over is not ordered there: the copy that has all bytes is in the first one', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    let moveId: string;
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
      moveId = await handedOver(a, b);
    }
    // The node b forgets that the move runs.
    const path = scratch.join('data-b', 'moves', `${id}.json`);
    writeFileSync(path, readFileSync(path, 'utf8').replace('"running"', '"failed"'));
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    await assert.rejects(orderTo(a, b, moveId, 'other'), /was handed over to pool data: order its move to that pool/);
    // What stays there is shown.
    const listed = async () => (await listMoves(b.mover)).moves.find((move) => move.id === id) ?? assert.fail();
    const { leftBytes = '', ...failed } = await listed();
    assert.ok(BigInt(leftBytes) >= 2n * mib, leftBytes);
    assert.match(
      moveRow({ ...failed, leftBytes }).join(' '),
      /2.*MiB? of it stay in pool data until it is cancelled or ordered/,
    );
    failCommits(b);
    // The copy that has come is the same one: without the source it can become the volume.
    const { whole } = b.sight(id).job;
    assert.ok(whole !== undefined);
    const look = mock.method(movesOf(a.pool), 'close', async () => {
      throw new Unavailable('the disk does not answer.');
    });
    await orderTo(a, b, moveId, 'data');
    await eventually(() => assert.equal(b.sight(id).trouble, 'the disk does not answer.'));
    assert.deepEqual(b.sight(id).job.whole, whole);
    look.mock.restore();
    await b.mover.finish(id, { lostNode: 'a' });
    assert.equal((await listed()).leftBytes, undefined);
  });
});

describe('a move from a third node', () => {
  test('removes no copy that has come from another one as a whole, and may be the last one', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      await using b = await MovingNode.open(scratch, broker, 'b');
      await handedOver(a, b);
    }
    const path = scratch.join('data-b', 'moves', `${id}.json`);
    writeFileSync(path, readFileSync(path, 'utf8').replace('"running"', '"failed"'));
    await using b = await MovingNode.open(scratch, broker, 'b');
    // An earlier copy was restored there.
    await using d = await MovingNode.open(scratch, broker, 'd');
    await filled(d);
    await assert.rejects(order(d, b, id), {
      name: 'FailedPrecondition',
      message: /node a is lost.* may be the last copy, and stays\. .* move finish .* --even-so\.$/,
    });
    assert.ok(readUnderBy(await movesOf(b.pool).comingNote(id)) !== undefined);
    assert.equal((await b.mover.cancel(id, { lostNode: 'a' }, undefined, true)).state, 'cancelled');
    await order(d, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
  });

  test('removes a part that has come from another one', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      await using b = await MovingNode.open(scratch, broker, 'b');
      await filled(a);
      await order(a, b, id, 1n << 20n);
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    }
    const path = scratch.join('data-b', 'moves', `${id}.json`);
    writeFileSync(path, readFileSync(path, 'utf8').replace('"running"', '"failed"'));
    await using b = await MovingNode.open(scratch, broker, 'b');
    await using d = await MovingNode.open(scratch, broker, 'd');
    await filled(d);
    await order(d, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
  });
});

describe('a move whose target has no pool for it any more, between hand-over and commit', () => {
  test('is cancelled once that pool is out of the configuration, and ordered to another one', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    let moveId: string;
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames: ['data', 'other'] });
      moveId = await handedOver(a, b);
    }
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames: ['other'], staged: [id] });
      await introduce(a, b, { id, moveId });
      await assert.rejects(b.mover.cancel(id), /is still staged on this node/);
      assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
    }
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames: ['other'] });
      await introduce(a, b, { id, moveId });
      assert.equal((await b.mover.cancel(id)).state, 'cancelled');
      assert.equal(await movesOf(b.pools.get('other')).whereElse(id), 'a');
      await using _usable = await deviceOf(a, id);
    }
    // The pool is back, with all that it had.
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames: ['data', 'other'] });
    await introduce(a, b, { id, moveId });
    assert.equal(await b.pools.find(id), undefined);
    await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
    assert.equal((await movesOf(a.pool).whereElse(id)) ?? 'none', 'b');
  });

  test('is not cancelled while the volume has arrived there, in a pool of another name', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames: ['data', 'other'] });
    const moveId = await handedOver(a, b);
    const { job } = b.sight(id);
    assert.equal(job.moveId, moveId);
    // It comes into that pool between the first look and the claim.
    const claim = b.objects.claim.bind(b.objects);
    b.objects.claim = async (claims, what, work) => {
      if (what === 'the end of a move' && claims.some(({ object }) => object === id)) {
        await b.pools.get('other').create(blockSpec);
      }
      return claim(claims, what, work);
    };
    await assert.rejects(b.mover.cancel(id), /has arrived in pool data/);
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
  });
});

describe('a cancel after the hand-over', () => {
  test('says what is known if the first node does not answer, and the same one ends the move later', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    const moveId = await handedOver(a, b);
    await using network = await SilentNetwork.open();
    await introduce(a, b, { id, moveId }, 'again', network.port);
    const cancel = (ms: number) => b.mover.cancel(id, undefined, deadlineOf(new Date(Date.now() + ms)));
    for (let n = 0; n < 2; n++) {
      await assert.rejects(cancel(500), {
        name: 'Unavailable',
        message: /not cancelled yet: node a has not said whether it has handed .*nothing has changed. The same command/,
      });
    }
    assert.deepEqual((await movesOf(b.pool).noted(id)).generation, 0);
    await introduce(a, b, { id, moveId });
    await eventually(async () => assert.equal((await cancel(20_000)).state, 'cancelled'));
    await using _usable = await deviceOf(a, id);
    await assert.rejects(b.mover.cancel(id), /is not moving; its last move was cancelled at 2/);
  });

  test('says whether the copy still waited at its target, and had not come: else a disk may have it as the volume', async () => {
    for (const [isThere, hasCome] of [
      [true, false],
      [false, false],
      [true, true],
    ]) {
      using scratch = new Scratch('nodes');
      const broker = new Broker();
      await using a = await MovingNode.open(scratch, broker, 'a');
      await using b = await MovingNode.open(scratch, broker, 'b');
      await handedOver(a, b);
      const note = mock.method(movesOf(b.pool), 'comingNote', async () => undefined);
      if (isThere) note.mock.restore();
      // The disk of its pool is as it was before the commit.
      if (hasCome) mock.method(movesOf(b.pool), 'noted', async () => ({ generation: 1, at: 'a', node: 'node' }));
      const { isUncommitted, state } = await b.mover.cancel(id);
      assert.deepEqual([state, isUncommitted], ['cancelled', isThere && !hasCome ? true : undefined]);
      await using _usable = await deviceOf(a, id);
    }
  });

  test('because the first node is lost ends the move, also twice, and makes no copy the volume', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await handedOver(a, b);
    const comingFrom = (lostNode: string) => ({ lostNode, isComing: true });
    await assert.rejects(a.mover.cancel(id, comingFrom('b')), {
      name: 'NotFound',
      message: /not moving here from node b/,
    });
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
    await assert.rejects(b.mover.cancel(id, comingFrom('c')), { name: 'NotFound' });
    assert.equal(b.sight(id).job.state, 'running');
    for (let n = 0; n < 2; n++)
      assert.equal((await b.mover.cancel(id, comingFrom('a'), undefined, true)).state, 'cancelled');
    assert.equal(await b.pools.find(id), undefined);
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
    // Node a is there again.
    const { generation } = await a.mover.copies.look(id);
    const disclaimed = await b.mover.copies.disclaim(id, generation, 'a');
    await a.mover.cancel(id, { lostNode: 'b', disclaimed });
    await using _usable = await deviceOf(a, id);
  });

  test('because the first node is lost removes no copy that may be the last one without a second word, and nothing too late', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await handedOver(a, b);
    const isWhole = async () => readUnderBy(await movesOf(b.pool).comingNote(id)) !== undefined;
    for (const isComing of [true, undefined]) {
      await assert.rejects(b.mover.cancel(id, { lostNode: 'a', isComing }), {
        name: 'FailedPrecondition',
        message: /may be the last copy, and stays. .* move finish .* --node-is-lost a.* --even-so/,
      });
    }
    const deadline = { at: new Date(Date.now() + 15_000), endMs: performance.now() + 15_000 };
    const find = b.pools.find.bind(b.pools);
    const late = mock.method(b.pools, 'find', (volume: typeof id) => {
      deadline.at.setTime(0);
      return find(volume);
    });
    const order = { lostNode: 'a', isComing: true, deadline };
    await assert.rejects(b.mover.cancel(id, order, deadline, true), {
      name: 'Unavailable',
      message: /not taken back in time/,
    });
    late.mock.restore();
    assert.ok(await isWhole());
    assert.equal(b.sight(id).job.state, 'running');
    assert.equal((await b.mover.cancel(id, { lostNode: 'a', isComing: true }, undefined, true)).state, 'cancelled');
    assert.ok(!(await isWhole()));
  });

  test('removes no copy that may be the last one, as the first node is there again with empty disks, without a second word', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    const first = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    const moveId = await handedOver(first, b);
    await loseDisks(scratch, first, 'all');
    await using a = await MovingNode.open(scratch, broker, 'a');
    await introduce(a, b, { id, moveId });
    await eventually(() => assert.rejects(b.mover.cancel(id), /, knows nothing of it, .*: this may be the last copy/));
    assert.notEqual(readUnderBy(await movesOf(b.pool).comingNote(id)), undefined);
    assert.equal((await b.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
    assert.equal(await movesOf(b.pool).comingNote(id), undefined);
  });

  test('is not carried out after its caller has gone: the node gives nothing up, and the move goes on', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await handedOver(a, b);
    const deadline = { at: new Date(Date.now() + 15_000), endMs: performance.now() + 15_000 };
    const stateOf = movesOf(a.pool).stateOf.bind(movesOf(a.pool));
    const late = mock.method(movesOf(a.pool), 'stateOf', async (volume: typeof id) => {
      deadline.at.setTime(0);
      return stateOf(volume);
    });
    await assert.rejects(b.mover.cancel(id, undefined, deadline), {
      name: 'Unavailable',
      message: /not taken back in/,
    });
    late.mock.restore();
    assert.equal((await movesOf(b.pool).noted(id)).generation, 0);
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
    assert.equal(b.sight(id).job.state, 'running');
  });

  test('does not wait for a disk that does not answer for ever', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await handedOver(a, b);
    const hanging = Promise.withResolvers<void>();
    mock.method(movesOf(a.pool), 'takeBack', () => hanging.promise);
    const deadline = deadlineOf(new Date(Date.now() + 3_000));
    await assert.rejects(b.mover.cancel(id, undefined, deadline), {
      name: 'Unavailable',
      message: /this node has given up its copy, and node a has not said that the volume is there again/,
    });
    hanging.resolve();
    await eventually(() => assert.equal(b.sight(id).job.state, 'cancelled'));
  });
});

describe('a node that was installed again between hand-over and commit', () => {
  const poolNames = ['data', 'other'];

  test('gives the copy up that it could have committed, and the first node takes the volume back by that word', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    const early = await MovingNode.open(scratch, broker, 'b');
    const moveId = await handedOver(a, early);
    const { generation } = await a.mover.copies.look(id);
    await assert.rejects(
      early.mover.copies.disclaim(id, generation, 'a'),
      /knows of the move of volume .*, which is running/,
    );
    await loseDisks(scratch, early, 'all');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await assert.rejects(a.mover.cancel(id), /was handed over to node b: cancel the move there/);
    await assert.rejects(a.mover.cancel(id, { lostNode: 'b', disclaimed: generation + 1 }), /may be on node b/);
    const word = await b.mover.copies.disclaim(id, generation, 'a');
    assert.equal(await b.mover.copies.disclaim(id, generation, 'a'), word);
    const { at, generation: noted } = await movesOf(b.pool).noted(id);
    assert.deepEqual([at, noted], ['a', word]);
    assert.equal((await a.mover.cancel(id, { lostNode: 'b', disclaimed: word })).state, 'cancelled');
    assert.equal(a.leavings.nodeFor(id), undefined);
    assert.deepEqual(await a.pool.listSnapshots(undefined, undefined, id), []);
    {
      await using _usable = await deviceOf(a, id);
    }
    // The earlier move does not go on, and another one does.
    await introduce(a, b, { id, moveId });
    await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
    await assert.rejects(b.mover.copies.disclaim(id, generation, 'a'), /which is done/);
  });

  test('does not while one of its pools has the volume, a part of it or a deleted one, or is not open, or a disk hangs', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
      await handedOver(a, b);
    }
    const { generation } = await a.mover.copies.look(id);
    await rm(scratch.join('data-b', 'moves'), { recursive: true });
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    const disclaim = () => b.mover.copies.disclaim(id, generation, 'a');
    await assert.rejects(disclaim(), /pool data of this node has volume .*, or a part of it/);
    await movesOf(b.pool).discard(id);
    const { pools } = b;
    const firstClosed = mock.method(pools, 'firstClosed', () => 'other');
    await assert.rejects(disclaim(), { name: 'Unavailable', message: /may be in pool other, which is not open/ });
    firstClosed.mock.restore();
    const arriving = mock.method(movesOf(pools.get('other')), 'arriving', () => new Promise<never>(() => undefined));
    await assert.rejects(disclaim(), { name: 'Unavailable', message: /a disk of this node does not answer/ });
    arriving.mock.restore();
    await pools.get('other').create({ ...blockSpec, undeleteSeconds: 600 });
    await assert.rejects(disclaim(), /pool other of this node has volume/);
    await b.delete(id);
    await assert.rejects(disclaim(), /pool other of this node has volume/);
    await pools.get('other').purge(id);
    await disclaim();
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
  });
});

describe('a node that has lost its pool after a volume has come to it', () => {
  /** @returns the digest of the volume, which node b has; its disk is kept beside it */
  async function movedAndLost(scratch: Scratch, broker: Broker, a: MovingNode, poolNames = ['data']): Promise<string> {
    const b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    await filled(a);
    const digest = await digestIn(a);
    await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
    await eventually(async () => assert.equal(await a.pool.find(id), undefined));
    await b[Symbol.asyncDispose]();
    cpSync(scratch.join('b'), scratch.join('old-b'), { recursive: true });
    cpSync(scratch.join('data-b', 'pools'), scratch.join('old-pools'), { recursive: true });
    await loseDisks(scratch, b, 'pool');
    return digest;
  }

  async function diskIsBack(scratch: Scratch): Promise<void> {
    for (const [old, now] of [
      ['old-b', 'b'],
      ['old-pools', 'data-b/pools'],
    ] as const) {
      await rm(scratch.join(now), { recursive: true, force: true });
      cpSync(scratch.join(old), scratch.join(now), { recursive: true });
    }
  }

  const restore = ({ mover, name, objects, pools }: MovingNode, disclaimed: number | undefined) =>
    adminService({ nodeId: name, pools, objects, mover }).restore(
      { id, lostNode: 'b', disclaimed },
      { note: () => undefined },
    );

  test('gives the volume up, so that the first one has it again, and a disk that comes back has an earlier copy', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    const before = await movedAndLost(scratch, broker, a);
    const { elsewhere, generation = -1 } = (await a.mover.copies.look(id)).trashed ?? {};
    assert.deepEqual([generation, elsewhere], [0, 'b']);
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { staged: [id] });
      await assert.rejects(
        b.mover.copies.disclaim(id, generation, 'a'),
        /knows of the move of volume .*, which is done/,
      );
      await assert.rejects(
        b.mover.copies.disclaim(id, generation, 'a', 'x'),
        /came to pool data of this node, and not to/,
      );
      await assert.rejects(b.mover.copies.disclaim(id, generation, 'a', 'data'), /is still staged on this node/);
      const { at, generation: noted } = await movesOf(b.pool).noted(id);
      assert.deepEqual([at, noted], [undefined, 1]);
    }
    let word: number;
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      word = await b.mover.copies.disclaim(id, generation, 'a', 'data');
      assert.equal(await b.mover.copies.disclaim(id, generation, 'a', 'data'), word);
      // Also if its notes are lost, and the disk has a copy that has moved on.
      assert.ok(word > 1_000_000, `${word}`);
    }
    await restore(a, word);
    assert.equal(await digestIn(a), before);
    const restored = await a.mover.copies.look(id);
    assert.ok(restored.generation > 1_000_000, `${restored.generation}`);
    await diskIsBack(scratch);
    await using b = await MovingNode.open(scratch, broker, 'b');
    assert.equal((await movesOf(b.pool).stateOf(id)).why, 'old');
    await assert.rejects(deviceOf(b, id), /has moved since its copy in pool data was the valid one/);
    const by = { generation: restored.generation, node: 'a', at: new Date().toISOString() };
    assert.equal(await b.mover.copies.outdate(id, by), true);
    // It can go there again.
    await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
    assert.equal(await digestIn(b), before);
  });

  test('does not while another pool of it has the volume, in its trash too, or the volume has gone on from there', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    const poolNames = ['data', 'other'];
    await using a = await MovingNode.open(scratch, broker, 'a');
    await movedAndLost(scratch, broker, a, poolNames);
    await diskIsBack(scratch);
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
      await assert.rejects(b.mover.copies.disclaim(id, 0, 'a', 'data'), /pool data of this node has volume/);
      await b.mover.start(id, 'other', undefined);
      assert.equal((await b.ended(id)).job.state, 'done');
      await assert.rejects(
        b.mover.copies.disclaim(id, 0, 'a', 'data'),
        /came to pool other of this node, and not to pool data/,
      );
      await assert.rejects(b.mover.copies.disclaim(id, 0, 'a', 'other'), /of this node has volume/);
    }
    await rm(scratch.join('b-other'), { recursive: true });
    await rm(scratch.join('data-b', 'pools'), { recursive: true });
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    // The later copy is in the trash there.
    await assert.rejects(b.mover.copies.disclaim(id, 0, 'a', 'other'), /pool data of this node has volume/);
    await b.pool.purge(id);
    // It was of generation 2 there.
    assert.ok((await b.mover.copies.disclaim(id, 0, 'a', 'other')) > 3);
  });
});

test('a copy that was handed over, and not committed, stays however old it is', async () => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  let moveId: string;
  {
    await using b = await MovingNode.open(scratch, broker, 'b');
    moveId = await handedOver(a, b);
  }
  const names = readdirSync(scratch.join('b'), { recursive: true, encoding: 'utf8' });
  const draft = scratch.join('b', names.find((name) => name.endsWith(`${id}${copySuffix}`)) ?? assert.fail());
  utimesSync(draft, 0, 0);
  await using b = await MovingNode.open(scratch, broker, 'b');
  assert.ok((await movesOf(b.pool).comingBytes(id)) > 0n);
  await introduce(a, b, { id, moveId });
  assert.equal((await b.ended(id)).job.state, 'done');
});
