import assert from 'node:assert/strict';
import { test } from 'node:test';
import { snapshotIdFor, volumeIdFor } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { forgettable, type MoveJob } from './job.ts';

const dayMs = 86_400_000;
const ago = (ms: number) => new Date(Date.now() - ms).toISOString();

const record: VolumeRecord = {
  ...{ id: volumeIdFor('node', 'pool', 'name'), name: 'name', sizeBytes: 1n << 20n, content: { type: 'block' } },
  ...{ accessModes: ['SINGLE_NODE_WRITER'], provisioning: 'thin', parameters: {}, blockSizeBytes: 512 },
  createdAt: '2026-01-02T03:04:05.678Z',
};

function job(name: string, state: MoveJob['state'], endedMsAgo: number): MoveJob {
  const common = { moveId: name, id: volumeIdFor('a', 'data', name), from: 'one', to: 'two', state };
  return { ...common, startedAt: ago(30 * dayMs), ...(state !== 'running' && { endedAt: ago(endedMsAgo) }) };
}

test('a move is forgotten a week after its end, or when a hundred others have ended since; one that runs is not', () => {
  const running = job('running', 'running', 0);
  const old = (['done', 'failed', 'cancelled'] as const).map((state) => job(`old ${state}`, state, 8 * dayMs));
  const kept = (['done', 'failed', 'cancelled'] as const).map((state) => job(state, state, 6 * dayMs));
  assert.deepEqual(forgettable([running, ...old, ...kept]), old);
  const many = Array.from({ length: 100 }, (_each, at) => job(`${at}`, at % 2 === 0 ? 'done' : 'cancelled', at));
  const names = forgettable([...kept, running, ...many]).map(({ moveId }) => moveId);
  assert.deepEqual(names.sort(), ['cancelled', 'done']);
  assert.deepEqual(forgettable([...many, running]), []);
  // By it the deletion of the volume knows of the pool whose copy may come back.
  const finished = { ...job('finished', 'done', 6 * dayMs), whole: { fenceId: 'f', generation: 1, record } };
  assert.deepEqual(forgettable([finished, ...many]), []);
});

test('an order by whose note a copy of a snapshot can still become the snapshot is never forgotten', () => {
  const many = Array.from({ length: 100 }, (_each, at) => job(`${at}`, 'done', at));
  const named = { id: snapshotIdFor('a', 'young'), createdAt: ago(9 * dayMs) };
  const whole = { moveId: 'm', fenceId: 'f', generation: 1, record: '' };
  for (const copies of [{ coming: { ...named, whole } }, { waiting: [{ ...named, whole, to: 'two' }] }]) {
    const order = { ...job('order', 'cancelled', 8 * dayMs), snapshots: { pools: [], moved: 0, left: [], ...copies } };
    assert.deepEqual(forgettable([order, ...many]), []);
  }
  const order = { ...job('order', 'done', 6 * dayMs), snapshots: { pools: [], moved: 0, left: [], coming: named } };
  assert.deepEqual(forgettable([order, ...many]), [order]);
});
