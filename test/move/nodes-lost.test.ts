import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, write } from './devices.ts';
import { Broker, introduce, MovingNode, order } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

/* Moves between two nodes of which one loses disks between hand-over and commit. */

const mib = 1n << 20n;
const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 32n * mib });
const { id } = spec;

async function filled(node: MovingNode): Promise<void> {
  await node.pool.create(spec);
  await using shown = await deviceOf(node, id);
  write(shown.devicePath, randomBytes(2 << 20), 5n * mib);
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
  failCommits(b);
  const moveId = await order(a, b, id);
  await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given'));
  return moveId;
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
      await filled(before);
      moveId = await order(before, b, id, mib / 4n);
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
      await loseDisks(scratch, before, 'all');
    }
    await using a = await MovingNode.open(scratch, broker, 'a');
    await failed(a, b, moveId);
    assert.equal(await movesOf(b.pool).comingBytes(id), 0n);
  });
});
