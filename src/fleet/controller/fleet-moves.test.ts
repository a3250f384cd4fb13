import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { pino } from 'pino';
import { contract, decode } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import { snapshotIdFor, volumeIdFor } from '../../volume/id.ts';
import { makeAuthority, makeKey } from '../tls/certificate.ts';
import { FleetMoves, type MoveShown } from './fleet-moves.ts';
import { FleetState } from './fleet-state.ts';
import type { Forward } from './forwarded-calls.ts';
import { PassedOn } from './passed-on.ts';
import type { Sessions } from './sessions.ts';

const noRecords = { of: async () => [], lately: async () => [] };

const id = volumeIdFor('a', 'data', 'data');
const snapshot = snapshotIdFor('a', 's1');

test('the ends of a move are the node that is asked, and the other one, whichever of them tells it', () => {
  const moves = new FleetMoves({
    state: new FleetState(),
    sessions: {} as Sessions,
    log: pino({ level: 'silent' }),
    records: noRecords,
    material: () => undefined,
  });
  const move: MoveShown = {
    id,
    from: 'data',
    to: '',
    toNode: 'b',
    state: 'running',
    startedAt: '2026-11-01T00:00:00Z',
  };
  const told = { move_id: 'm', volume_id: id, source_node: '', ticket: '', unconnected: false };
  moves.told('a', { moves: [{ ...told, sight: JSON.stringify(move) }] });
  assert.deepEqual(moves.endsOf(id, 'a').sort(), ['a', 'b']);
  assert.deepEqual(moves.endsOf(id, 'b').sort(), ['a', 'b']);
  assert.deepEqual(moves.endsOf(id, 'c'), ['c']);
  assert.deepEqual(moves.endsOf(volumeIdFor('a', 'data', 'other'), 'a'), ['a']);
});

test('the ends of a move are none of those that the volume had before', () => {
  const material = { 'ca.crt': '', 'ca.key': '', 'tls.crt': '', 'tls.key': '', 'move.key': 'of moves' };
  const state = new FleetState();
  const log = pino({ level: 'silent' });
  const moves = new FleetMoves({ state, sessions: {} as Sessions, log, records: noRecords, material: () => material });
  const tell = (node: string, fromNode: string, state: MoveShown['state'], startedAt: string) => {
    const moveId = `from ${fromNode}`;
    const text = JSON.stringify(['move', id, moveId, fromNode, node]);
    const ticket = createHmac('sha256', 'of moves').update(text).digest('base64url');
    const sight = JSON.stringify({ id, from: 'data', to: 'data', fromNode, state, startedAt });
    const told = { move_id: moveId, volume_id: id, source_node: fromNode, ticket, unconnected: false, sight };
    moves.told(node, { moves: [told] });
  };
  tell('c', 'b', 'done', '2026-11-01T00:00:00Z');
  tell('a', 'c', 'done', '2026-11-02T00:00:00Z');
  for (const state of ['running', 'failed'] as const) {
    tell('b', 'a', state, '2026-11-03T00:00:00Z');
    assert.deepEqual(moves.endsOf(id, 'b').sort(), ['a', 'b'], state);
    assert.deepEqual(moves.endsOf(id, 'a').sort(), ['a', 'b'], state);
  }
  // One that has failed long ago, from the same node.
  tell('c', 'a', 'failed', '2026-11-01T00:00:00Z');
  tell('b', 'a', 'running', '2026-11-03T00:00:00Z');
  assert.deepEqual(moves.endsOf(id, 'a').sort(), ['a', 'b']);
});

test('a ticket of an earlier controller, which had no separate key, counts as long as that key stands; that of others does not', () => {
  const material = { 'ca.crt': '', 'ca.key': 'of the authority', 'tls.crt': '', 'tls.key': '', 'move.key': 'of moves' };
  const move: MoveShown = {
    ...{ id, from: 'data', to: 'data', fromNode: 'a', state: 'running', startedAt: '2026-11-01T00:00:00Z' },
  };
  const listed = (key: string) => {
    const moves = new FleetMoves({
      state: new FleetState(),
      sessions: {} as Sessions,
      log: pino({ level: 'silent' }),
      records: noRecords,
      material: () => material,
    });
    const text = JSON.stringify(['move', id, 'm', 'a', 'b']);
    const ticket = createHmac('sha256', key).update(text).digest('base64url');
    const told = { move_id: 'm', volume_id: id, source_node: 'a', ticket, unconnected: false };
    moves.told('b', { moves: [{ ...told, sight: JSON.stringify(move) }] });
    return moves.list(id).length;
  };
  assert.deepEqual(['of moves', 'of the authority', 'of another'].map(listed), [1, 1, 0]);
});

interface Placed {
  readonly volumeOn: 'a' | 'b';
  /** A third node. */
  readonly snapshotOn?: 'c' | undefined;
  /** The node whose driver is older. */
  readonly older?: 'a' | 'b';
}

/** A fleet of two nodes, one of which has the volume, and of a third one if that has a snapshot of it. */
function fleetOf({ older, snapshotOn, volumeOn }: Placed) {
  const state = new FleetState();
  const nodes = ['a', 'b', ...(snapshotOn === undefined ? [] : [snapshotOn])];
  state.expect(nodes);
  for (const node of nodes) {
    const inventory = state.linked(node);
    const each = { name: 'data', pool: 'data', group_id: '', adopted: false };
    const put = [
      ...(node === volumeOn ? [{ ...each, id, source_id: '', kind: 'VOLUME' as const }] : []),
      ...(node === snapshotOn ? [{ ...each, id: snapshot, source_id: id, kind: 'SNAPSHOT' as const }] : []),
    ];
    inventory.apply({ revision: 1n, starts: true, complete: true, put, gone: [], pools: [] });
    state.told(node, inventory);
  }
  const asked: string[] = [];
  const call = async (node: string, { method, request }: Forward): Promise<Buffer> => {
    const rpc = method.slice(method.lastIndexOf('/') + 1);
    const { kind } = decode<wire.AdmitMoveRequest>(contract.lookupType('holdfast.fleet.v1.AdmitMoveRequest'), request);
    asked.push(rpc === 'AdmitMove' ? `${node} ${rpc} ${kind}` : `${node} ${rpc}`);
    if (node === older && rpc === 'AdmitMove' && kind.startsWith('snapshots')) throw new PassedOn(3, 'no kind');
    if (node === older && rpc.endsWith('WithSnapshots')) throw new PassedOn(12, 'no such call');
    return Buffer.alloc(0);
  };
  const sessions = { get: (node: string) => ({ calls: { call: (each: Forward) => call(node, each) } }) };
  const { certificate, key } = makeAuthority('test', { from: new Date(Date.now() - 60_000), days: 1 });
  const material = { 'ca.crt': certificate, 'ca.key': key, 'tls.crt': '', 'tls.key': '', 'move.key': 'of moves' };
  const log = pino({ level: 'silent' });
  const moves = new FleetMoves({
    state,
    sessions: sessions as unknown as Sessions,
    log,
    records: noRecords,
    material: () => material,
  });
  moves.certify('a', { address: ':9445', public_key: makeKey().publicKey }, '127.0.0.1');
  return { asked, moves };
}

/** The driver of one node is older. @returns the calls, and an order with snapshots */
function withOlder(older: 'a' | 'b') {
  const { asked, moves } = fleetOf({ volumeOn: 'a', older });
  const order = { volumeId: id, toNode: 'b', toPool: undefined, limitBytesPerSecond: undefined, withSnapshots: true };
  return { asked, start: () => moves.start(order) };
}

for (const older of ['a', 'b'] as const) {
  test(`an order with snapshots is refused before it changes anything if the driver of ${older} is older`, async () => {
    const { asked, start } = withOlder(older);
    await assert.rejects(start(), {
      name: 'FailedPrecondition',
      message: new RegExp(`The driver of node ${older} takes no snapshots along .* Nothing was changed`),
    });
    const plans = ['a AdmitMove snapshots-plan', 'a AdmitMove plan', 'b ConnectMove', 'b PlanMoveWithSnapshots'];
    assert.deepEqual(
      asked.filter((each) => !plans.includes(each)),
      [],
    );
  });
}

/**
 * Node `b` has the volume, and neither it nor node `a` lists a snapshot of it.
 * @param tells the moves that a node reports
 * @param snapshotOn a third node, which lists one
 */
function withHandedOver(tells: readonly (readonly [node: string, MoveShown])[], snapshotOn?: 'c') {
  const { asked, moves } = fleetOf({ volumeOn: 'b', snapshotOn });
  for (const [node, move] of tells) {
    const source = move.fromNode ?? '';
    const text = JSON.stringify(['move', id, 'm', source, node]);
    const ticket = createHmac('sha256', 'of moves').update(text).digest('base64url');
    const told = { move_id: 'm', volume_id: id, source_node: source, ticket, unconnected: false };
    moves.told(node, { moves: [{ ...told, sight: JSON.stringify(move) }] });
  }
  return { asked, moves };
}

const given: MoveShown = {
  ...{ id, from: 'data', to: '', toNode: 'b', state: 'done', startedAt: '2026-11-01T00:00:00Z' },
  snapshots: {
    ...{ state: 'running', to: '', moved: 0 },
    left: [{ id: snapshot, name: 's1', pool: 'data', reason: 'it was handed over', stays: true }],
  },
};

test('snapshots that were handed over to a node which knows nothing of them are ordered, and cancelled, as their first node says', async () => {
  const { asked, moves } = withHandedOver([['a', given]]);
  const order = { volumeId: id, toNode: 'b', toPool: undefined, limitBytesPerSecond: undefined, withSnapshots: true };
  await assert.rejects(moves.plan(order), { code: 'INTERNAL' });
  assert.deepEqual(asked, ['a AdmitMove snapshots-plan', 'b ConnectMove', 'b PlanMoveWithSnapshots']);
  asked.length = 0;
  const found = moves.handedOver(id, 'a');
  assert.deepEqual(
    [found, moves.handedOver(id, 'b'), moves.handedOver(id, 'c')],
    [{ source: 'a', target: 'b', ids: [snapshot] }, { source: 'a', target: 'b', ids: [snapshot] }, undefined],
  );
  const cancelled = moves.cancelSnapshots(found ?? assert.fail(), { volumeId: id, isEvenSo: false });
  await assert.rejects(cancelled, { code: 'INTERNAL' });
  assert.deepEqual(asked, ['a AdmitMove ', 'b ConnectMove', 'b CancelSnapshots']);
});

test('snapshots that were handed over are not the snapshots again where they were while a third node has one, by its disk', async () => {
  const { asked, moves } = withHandedOver([['a', given]], 'c');
  const found = moves.handedOver(id, 'a') ?? assert.fail();
  await assert.rejects(
    moves.cancelSnapshots(found, { volumeId: id, isEvenSo: true }),
    /snapshot snap-\w+ is on node c by now, so a copy on node a or node b must not be used/,
  );
  assert.deepEqual(asked, []);
});

test('the cancel of a volume that moves within a node is not taken for one of its snapshots', () => {
  const within: MoveShown = { id, from: 'data', to: 'fast', state: 'running', startedAt: '2026-11-02T00:00:00Z' };
  const { moves } = withHandedOver([
    ['a', given],
    ['b', within],
  ]);
  assert.equal(moves.handedOver(id, 'b'), undefined);
});

test('snapshots that are handed over just now are cancelled by the node that runs their order', () => {
  const coming: MoveShown = {
    ...{ id, from: 'data', to: 'data', fromNode: 'a', state: 'done', startedAt: '2026-11-01T00:00:00Z' },
    snapshots: { state: 'running', to: 'data', moved: 0, left: [] },
  };
  const { moves } = withHandedOver([
    ['a', given],
    ['b', coming],
  ]);
  assert.equal(moves.handedOver(id, 'a'), undefined);
});
