import assert from 'node:assert/strict';
import { test } from 'node:test';
import type * as wire from '../../csi/generated/types.ts';
import { snapshotIdFor, volumeIdFor } from '../../volume/id.ts';
import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';
import { routeById } from '../routing/by-id.ts';
import type { RecordedNode } from '../routing/view.ts';
import { FleetState } from './fleet-state.ts';
import type { NodeInventory } from './inventory.ts';
import { routeRecorded } from './recorded-owner.ts';

const id = volumeIdFor('a', 'data', 'x');
const snapshotId = snapshotIdFor('a', 'snapshot');

const common = { name: 'x', pool: 'data', group_id: '', adopted: false };
const volume = { ...common, kind: 'VOLUME', id, source_id: '' } as const;
const snapshot = { ...common, kind: 'SNAPSHOT', id: snapshotId, name: 'snapshot', source_id: id } as const;

/** A node reports all that it has. */
function report(state: FleetState, node: string, ...put: wire.InventoryEntry[]): NodeInventory {
  const inventory = state.linked(node);
  inventory.apply({ revision: 1n, starts: true, complete: true, put, gone: [], pools: [] });
  state.told(node, inventory);
  return inventory;
}

/** A volume of node a and a snapshot of it are on node b, and node c is away. */
function fleet(now?: () => number): FleetState {
  const state = new FleetState(now);
  state.expect(['a', 'b', 'c']);
  report(state, 'a');
  report(state, 'b', volume, snapshot);
  return state;
}

/** Node a has both, too. */
function bothReport(now?: () => number): FleetState {
  const state = fleet(now);
  report(state, 'a', volume, snapshot);
  return state;
}

const noMoves = { movedTo: () => undefined, wentTo: async () => undefined, gaveUp: () => false };

/** Kubernetes, whose list is made again for each question. */
function recordsFrom(list: (id: string) => readonly RecordedNode[]) {
  const of = async (id: string) => list(id).map((node) => ({ handle: id, node }) as RecordedVolume);
  return { of, lately: of };
}

/** @param nodes that the PersistentVolumes of the volume name */
async function routed(...nodes: readonly (string | undefined)[]): Promise<string> {
  const state = fleet();
  const asked: string[] = [];
  const records = recordsFrom((volumeId) => {
    asked.push(volumeId);
    return nodes;
  });
  const route = () => routeRecorded({ moves: noMoves, records, state }, () => routeById(state, id));
  const found = await route();
  assert.ok(found.to === 'node');
  // It is known from then on.
  assert.deepEqual(await route(), found);
  assert.deepEqual(asked, [id]);
  return found.node;
}

test('a volume that has moved is on the node that its PersistentVolumes name, while another node is away', async () => {
  assert.equal(await routed('b'), 'b');
  assert.equal(await routed('b', 'b'), 'b');
});

test('hostile: the PersistentVolume of the volume that a node names draws no calls for a snapshot of another node', async () => {
  for (const state of [fleet(), bothReport()]) {
    const records = recordsFrom(() => assert.fail('Kubernetes was asked'));
    const route = () => routeRecorded({ moves: noMoves, records, state }, () => routeById(state, snapshotId));
    if (state.owners(snapshotId).length === 1) await assert.rejects(route(), { name: 'OwnerInDoubt' });
    else assert.deepEqual(await route(), { to: 'node', node: 'a' });
  }
});

test('a PersistentVolume that is changed counts as it is half a minute later', async () => {
  let nowMs = 0;
  let node = 'b';
  const state = bothReport(() => nowMs);
  const records = recordsFrom(() => [node]);
  const route = () => routeRecorded({ moves: noMoves, records, state }, () => routeById(state, id));
  assert.deepEqual(await route(), { to: 'node', node: 'b' });
  node = 'a';
  assert.deepEqual(await route(), { to: 'node', node: 'b' });
  nowMs = 30_000;
  assert.deepEqual(await route(), { to: 'node', node: 'a' });
});

test('it is in doubt while a PersistentVolume names another node, or none, or while there is no PersistentVolume', async () => {
  for (const nodes of [[], ['c'], ['b', 'a'], ['b', undefined]]) {
    await assert.rejects(routed(...nodes), { name: 'OwnerInDoubt', message: /and c is away since/ });
  }
});

test('a volume that has gone on to another node is in doubt there until its PersistentVolumes are seen again', async () => {
  const state = fleet();
  const inventory = report(state, 'b', volume);
  state.noteRecorded(id, ['b']);
  assert.deepEqual(routeById(state, id), { to: 'node', node: 'b' });
  inventory.apply({ revision: 2n, starts: false, complete: false, pools: [], put: [], gone: [id] });
  report(state, 'd', volume);
  assert.throws(() => routeById(state, id), { name: 'OwnerInDoubt' });
});

test('a volume that two nodes report is moving if a node tells so, and is on two nodes otherwise', async () => {
  const state = fleet();
  report(state, 'c', volume);
  const routedFrom = (from: string, to: string) =>
    routeRecorded(
      {
        moves: { ...noMoves, movedTo: (_id, node) => (node === from ? to : undefined) },
        records: recordsFrom(() => []),
        state,
      },
      () => routeById(state, id),
    );
  await assert.rejects(routedFrom('b', 'c'), {
    name: 'Unavailable',
    message: `${id} has just moved from b to c; try again.`,
  });
  for (const [from, to] of [
    ['a', 'b'],
    ['b', 'a'],
    ['b', 'd'],
  ] as const) {
    await assert.rejects(routedFrom(from, to), {
      name: 'SeveralOwners',
      message: /is on b and c: one of them must not/,
    });
  }
});

test('a volume that the node which has made it has, too, is where its PersistentVolumes say, and there without any', async () => {
  for (const [nodes, expected] of [
    [[], 'a'],
    [['a'], 'a'],
    [['b'], 'b'],
    [['b', 'a'], undefined],
    [['c'], undefined],
  ] as const) {
    const state = bothReport();
    const records = recordsFrom(() => nodes);
    const routed = routeRecorded({ moves: noMoves, records, state }, () => routeById(state, id));
    if (expected === undefined) await assert.rejects(routed, { name: 'SeveralOwners', message: /is on a and b/ });
    else assert.deepEqual(await routed, { to: 'node', node: expected });
  }
});

/** Node a, which made the volume, is the only one that reports it. */
function onlyNative(b: 'told' | 'away' | 'opening'): FleetState {
  const state = new FleetState();
  state.expect(['a', 'b', 'c']);
  report(state, 'a', volume);
  const pools = [{ name: 'data', kind: '', state: 'failed', reason: 'no disk' }];
  const inventory = state.linked('b');
  inventory.apply({
    revision: 1n,
    starts: true,
    complete: true,
    put: [],
    gone: [],
    pools: b === 'opening' ? pools : [],
  });
  state.told('b', inventory);
  if (b === 'away') state.away('b');
  return state;
}

test('a volume that only the node reports which made it is in doubt while a node is silent that its PersistentVolume names', async () => {
  for (const [b, nodes, why] of [
    ['away', ['b'], /on node a, which made it, and its PersistentVolume names b, .*: b is away since .*forget-node/],
    ['opening', ['b'], /names b, where it may be by now: pool data of b is not open/],
    ['away', ['b', 'a'], /names b, /],
    ['told', ['c', 'b'], /names c, .*: c is away since/],
    ['told', ['b'], undefined],
    ['away', ['a'], undefined],
    ['away', [], undefined],
    ['away', [undefined], undefined],
    ['away', ['left'], /names left, where it may be by now: left is not there\. .*forget-node/],
  ] as const) {
    const state = onlyNative(b);
    const route = () =>
      routeRecorded({ moves: noMoves, records: recordsFrom(() => nodes), state }, () => routeById(state, id));
    if (why === undefined) assert.deepEqual(await route(), { to: 'node', node: 'a' }, nodes.join());
    else await assert.rejects(route(), { name: 'OwnerInDoubt', message: why });
  }
});

test('a node of a PersistentVolume that the controller has not met is awaited until Kubernetes has said which nodes there are', async () => {
  const routed = (node: string, expected?: readonly string[]) => {
    const state = new FleetState();
    report(state, 'a', volume);
    if (expected !== undefined) state.expect(expected);
    const records = recordsFrom(() => [node]);
    return routeRecorded({ moves: noMoves, records, state }, () => routeById(state, id));
  };
  await assert.rejects(routed('b'), { name: 'OwnerInDoubt', message: /names b, .*: Kubernetes has not said yet/ });
  assert.deepEqual(await routed('a'), { to: 'node', node: 'a' });
  await assert.rejects(routed('b', ['a', 'b']), { name: 'OwnerInDoubt', message: /: b is away since/ });
});

test('what is known of its PersistentVolumes ends when another node reports the volume', async () => {
  const state = onlyNative('away');
  const records = recordsFrom(() => []);
  const route = () => routeRecorded({ moves: noMoves, records, state }, () => routeById(state, id));
  assert.deepEqual(await route(), { to: 'node', node: 'a' });
  assert.deepEqual(state.recorded(id), []);
  report(state, 'b', volume);
  assert.equal(state.recorded(id), undefined);
});

test('a list of PersistentVolumes that is older than the call decides for a node, and refuses nothing', async () => {
  const state = onlyNative('away');
  const asked: string[] = [];
  const list = async (kind: string, node: string) => {
    asked.push(kind);
    return [{ handle: `${id}`, node } as RecordedVolume];
  };
  const records = { lately: () => list('lately', 'b'), of: () => list('of', 'a') };
  const route = () => routeRecorded({ moves: noMoves, records, state }, () => routeById(state, id));
  assert.deepEqual(await route(), { to: 'node', node: 'a' });
  assert.deepEqual(asked, ['lately', 'of']);
});

test('a snapshot that has moved is where the node says that made it, and each after that, while another node is away', async () => {
  const gone = (steps: Record<string, string | undefined>) => async (_id: string, from: string) => {
    if (from in steps) return steps[from];
    throw new Error('it cannot be asked');
  };
  for (const [steps, expected] of [
    [{ a: 'b', b: undefined }, 'b'],
    [{ a: undefined }, undefined],
    [{}, undefined],
    // It went on to a node that is away, or in a circle.
    [{ a: 'b', b: 'c' }, undefined],
    [{ a: 'b', b: 'a' }, undefined],
    [{ a: 'c' }, undefined],
    [{ a: 'b' }, undefined],
  ] as const) {
    const state = fleet();
    const parts = { moves: { ...noMoves, wentTo: gone(steps) }, records: recordsFrom(() => assert.fail()), state };
    const routed = routeRecorded(parts, () => routeById(state, snapshotId));
    if (expected === undefined) await assert.rejects(routed, { name: 'OwnerInDoubt', message: /and c is away since/ });
    else assert.deepEqual(await routed, { to: 'node', node: expected });
  }
  const state = fleet();
  state.away('a');
  const wentTo = async (_id: string, from: string) => (from === 'a' ? 'b' : undefined);
  const parts = { moves: { ...noMoves, wentTo }, records: recordsFrom(() => assert.fail()), state };
  await assert.rejects(
    routeRecorded(parts, () => routeById(state, snapshotId)),
    { name: 'OwnerInDoubt' },
  );
});

test('of two nodes that a snapshot has come to, and that did not make it, the last one counts', async () => {
  const state = new FleetState();
  state.expect(['a', 'b', 'd']);
  report(state, 'a');
  report(state, 'b', snapshot);
  report(state, 'd', snapshot);
  const went = new Map([
    ['a', 'b'],
    ['b', 'd'],
  ]);
  const routed = (wentTo: (id: string, from: string) => Promise<string | undefined>) =>
    routeRecorded({ moves: { ...noMoves, wentTo }, records: recordsFrom(() => assert.fail()), state }, () =>
      routeById(state, snapshotId),
    );
  await assert.rejects(
    routed(async () => undefined),
    { name: 'SeveralOwners' },
  );
  assert.deepEqual(await routed(async (_id, from) => went.get(from)), { to: 'node', node: 'd' });
});

test('a node that is forgotten, or to which the volume did not move in the end, leaves it in no doubt', async () => {
  const forgotten = onlyNative('away');
  forgotten.forget(['b']);
  const cancelled = onlyNative('away');
  for (const [state, gaveUp] of [
    [forgotten, () => false],
    [cancelled, (_id: string, target: string) => target === 'b'],
  ] as const) {
    const records = recordsFrom(() => ['b']);
    const route = () => routeRecorded({ moves: { ...noMoves, gaveUp }, records, state }, () => routeById(state, id));
    assert.deepEqual(await route(), { to: 'node', node: 'a' });
  }
});
