import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Random } from '../support/random.ts';
import { MemoryNode, MemoryReplica } from './support/memory-fleet.ts';
import type { Faults } from './support/memory-link.ts';

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
});
