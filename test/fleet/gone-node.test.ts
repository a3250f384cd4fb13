import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { volumeIdFor } from '../../src/volume/id.ts';
import { Random } from '../support/random.ts';
import { volumeOn } from './support/fleet.ts';
import { MemoryNode, MemoryReplica } from './support/memory-fleet.ts';
import type { Faults, MemoryLink } from './support/memory-link.ts';

const healthy: Faults = { random: new Random(1), cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 };
const never = { volume_id: 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa' };

test('a volume that no node has, whose PersistentVolume names a node that is not there, is not called deleted', async () => {
  const replica = new MemoryReplica(['a']);
  const a = new MemoryNode('a');
  a.link(replica, healthy);
  while (replica.state.node('a')?.hasTold !== true) await nextTurn();
  assert.deepEqual(await replica.call('DeleteVolume', never), {}, 'no PersistentVolume names it');
  replica.recorded.set(never.volume_id, 'a');
  assert.deepEqual(await replica.call('DeleteVolume', never), {}, 'its node is there, and has it not');
  // Its Node is no more, so nobody waits for it.
  replica.recorded.set(never.volume_id, 'gone');
  assert.equal(await replica.call('DeleteVolume', never), 'UNAVAILABLE');
  // Unless its class has waited for long enough.
  replica.isForgottenByClass = true;
  assert.deepEqual(await replica.call('DeleteVolume', never), {});
});

test('of a node that was forgotten nothing is waited for, unless it has a link', async () => {
  const replica = new MemoryReplica(['a', 'gone']);
  const [a, gone] = [new MemoryNode('a'), new MemoryNode('gone')];
  a.link(replica, healthy);
  const link = gone.link(replica, healthy);
  const kept = volumeIdFor('gone', 'default', 'kept');
  gone.volumes.set(kept, 'kept');
  for (const name of ['a', 'gone']) while (replica.state.node(name)?.hasTold !== true) await nextTurn();
  replica.recorded.set(never.volume_id, 'gone');
  replica.recorded.set(kept, 'gone');

  // It is there after all: it is asked, as ever.
  replica.state.forget(['gone']);
  assert.equal(replica.state.isForgotten('gone'), false);
  assert.notEqual(await replica.call('ControllerGetVolume', { volume_id: kept }), 'NOT_FOUND');

  link.cut('it is gone');
  assert.equal(replica.state.isForgotten('gone'), true);
  assert.deepEqual(await replica.call('DeleteVolume', never), {});
  assert.deepEqual(await replica.call('DeleteVolume', { volume_id: kept }), {});
  assert.ok(gone.volumes.has(kept), 'what it has, it keeps');
  const placed = await replica.call('CreateVolume', volumeOn('gone', 'new'));
  assert.equal(placed, 'RESOURCE_EXHAUSTED', 'the claim may go elsewhere');

  // Not of another one.
  replica.recorded.set(never.volume_id, 'other');
  assert.equal(await replica.call('DeleteVolume', never), 'UNAVAILABLE');

  replica.state.forget([]);
  replica.recorded.set(never.volume_id, 'gone');
  assert.equal(
    await replica.call('DeleteVolume', never),
    'UNAVAILABLE',
    'Kubernetes still says that it has the driver',
  );
});

test('a volume that has just moved is not called missing by the node that it has left', async () => {
  const replica = new MemoryReplica(['a', 'b']);
  const [a, b] = [new MemoryNode('a'), new MemoryNode('b')];
  const id = volumeIdFor('a', 'default', 'moved');
  a.volumes.set(id, 'moved');
  for (const node of [a, b]) {
    node.link(replica, healthy);
    while (replica.state.node(node.name)?.hasTold !== true) await nextTurn();
  }
  assert.deepEqual(
    replica.state.owners(id).map(({ isNative, node }) => ({ node, isNative })),
    [{ node: 'a', isNative: true }],
  );
  // The controller has not heard of it yet.
  a.volumes.delete(id);
  const grow = { volume_id: id, capacity_range: { required_bytes: 128n << 20n } };
  replica.moved.set(id, { from: 'a', to: 'b' });
  assert.equal(await replica.call('ControllerExpandVolume', grow), 'UNAVAILABLE');
  replica.moved.clear();
  replica.moved.set(id, { from: 'b', to: 'a' });
  assert.notEqual(await replica.call('ControllerExpandVolume', grow), 'UNAVAILABLE');
});

describe('a volume that has gone to another node, whose first node still seems to have it', () => {
  async function gone() {
    const replica = new MemoryReplica(['a', 'b', 'c']);
    const nodes = ['a', 'b', 'c'].map((name) => new MemoryNode(name));
    const [a = assert.fail(), b = assert.fail(), c = assert.fail()] = nodes;
    const id = volumeIdFor('a', 'default', 'moved');
    a.volumes.set(id, 'moved');
    const links = new Map<string, MemoryLink>();
    for (const node of nodes) {
      links.set(node.name, node.link(replica, healthy));
      while (replica.state.node(node.name)?.hasTold !== true) await nextTurn();
    }
    // The controller has not heard of it yet.
    a.volumes.delete(id);
    replica.went.set(`${id} a`, 'b');
    const remove = () => replica.call('DeleteVolume', { volume_id: id });
    return { replica, links, a, b, c, id, remove };
  }

  test('is not deleted while the node is away that it went to', async () => {
    const { b, id, links, remove, replica } = await gone();
    b.volumes.set(id, 'moved');
    links.get('b')?.cut('it is away');
    while (replica.state.node('b')?.isLinked === true) await nextTurn();
    assert.equal(await remove(), 'UNAVAILABLE');
    assert.ok(b.volumes.has(id));
    replica.state.forget(['b']);
    assert.notEqual(await remove(), 'UNAVAILABLE');
  });

  test('is deleted where it is, also if it has gone on from there, and back', async () => {
    const { b, c, id, remove, replica } = await gone();
    replica.went.set(`${id} b`, 'c');
    replica.went.set(`${id} c`, 'a');
    c.volumes.set(id, 'moved');
    assert.deepEqual(await remove(), {});
    assert.deepEqual([b.volumes.has(id), c.volumes.has(id)], [false, false]);
  });
});
