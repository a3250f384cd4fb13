import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { inspect } from 'node:util';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { Random } from '../support/random.ts';
import { MemoryNode, MemoryReplica } from './support/memory-fleet.ts';
import type { Faults, MemoryLink } from './support/memory-link.ts';

const healthy: Faults = { random: new Random(1), cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 };
const source = volumeIdFor('a', 'default', 'data');
const snapshot_id: string = snapshotIdFor('a', 'moved');
const named = ['moved', source] as const;

/** Two nodes; `a` has taken the snapshot. */
class Fleet {
  readonly replica = new MemoryReplica(['a', 'b']);
  readonly a = new MemoryNode('a');
  readonly b = new MemoryNode('b');
  readonly links = new Map<string, MemoryLink>();

  async link(): Promise<this> {
    for (const node of [this.a, this.b]) {
      this.links.set(node.name, node.link(this.replica, healthy));
      while (this.replica.state.node(node.name)?.hasTold !== true) await nextTurn();
    }
    return this;
  }

  /** It has followed its volume from a to b, and the lists do not say so yet. */
  static async moved(): Promise<Fleet> {
    const fleet = new Fleet();
    fleet.a.snapshots.set('moved', source);
    await fleet.link();
    fleet.a.snapshots.delete('moved');
    fleet.b.came.set(snapshot_id, named);
    fleet.replica.went.set(`${snapshot_id} a`, 'b');
    return fleet;
  }

  async cut(name: string): Promise<void> {
    this.links.get(name)?.cut('it is away');
    while (this.replica.state.node(name)?.isLinked === true) await nextTurn();
  }

  call(name: string): Promise<object | string> {
    return this.replica.call(name, { snapshot_id });
  }
}

describe('a snapshot that has followed its volume to another node, and that its first node still seems to have', () => {
  test('is not called missing', async () => {
    for (const name of ['GetSnapshot', 'ListSnapshots']) {
      assert.equal(await (await Fleet.moved()).call(name), 'UNAVAILABLE', name);
    }
    const fleet = await Fleet.moved();
    fleet.replica.went.clear();
    assert.equal(await fleet.call('GetSnapshot'), 'NOT_FOUND');
  });

  test('is deleted where it is', async () => {
    const fleet = await Fleet.moved();
    assert.deepEqual(await fleet.call('DeleteSnapshot'), {});
    assert.equal(fleet.b.came.size, 0);
  });

  test('is not deleted while that node is away, unless it is forgotten', async () => {
    const fleet = await Fleet.moved();
    await fleet.cut('b');
    assert.equal(await fleet.call('DeleteSnapshot'), 'UNAVAILABLE');
    assert.equal(fleet.b.came.size, 1);
    fleet.replica.state.forget(['b']);
    assert.deepEqual(await fleet.call('DeleteSnapshot'), {});
  });
});

describe('a snapshot that no node lists', () => {
  /** It is on its way from b to a, and arrives once b has said that it has none. */
  async function arriving(): Promise<Fleet> {
    const fleet = await new Fleet().link();
    fleet.b.afterSnapshotCall = () => {
      fleet.a.snapshots.set('moved', source);
      fleet.b.afterSnapshotCall = () => undefined;
    };
    return fleet;
  }

  test('is asked for twice at all nodes: it may have moved meanwhile to one that had been asked', async () => {
    for (const name of ['GetSnapshot', 'ListSnapshots']) {
      const answer = await (await arriving()).call(name);
      assert.match(inspect(answer, { depth: 4 }), new RegExp(snapshot_id), name);
    }
    const fleet = await arriving();
    assert.deepEqual(await fleet.call('DeleteSnapshot'), {});
    assert.equal(fleet.a.snapshots.size, 0);
  });

  test('is not called missing or deleted while a node is away that may have it', async () => {
    const fleet = await new Fleet().link();
    for (const name of ['GetSnapshot', 'DeleteSnapshot', 'ListSnapshots']) {
      assert.notEqual(await fleet.call(name), 'UNAVAILABLE', name);
    }
    await fleet.cut('b');
    for (const name of ['GetSnapshot', 'ListSnapshots']) assert.equal(await fleet.call(name), 'UNAVAILABLE', name);
  });
});

test('a snapshot that was taken back from a lost node, which is there again, is deleted on both', async () => {
  const fleet = new Fleet();
  fleet.a.snapshots.set('moved', source);
  fleet.b.came.set(snapshot_id, named);
  await fleet.link();
  assert.deepEqual(await fleet.call('DeleteSnapshot'), {});
  assert.deepEqual([fleet.a.snapshots.size, fleet.b.came.size], [0, 0]);
});
