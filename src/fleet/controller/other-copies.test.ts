import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tell } from '../../../test/fleet/support/told-fleet.ts';
import { volumeIdFor } from '../../volume/id.ts';
import type { ToldMove } from './fleet-moves.ts';
import { FleetState } from './fleet-state.ts';
import { requireNoOther, requireOnlyAt, type VolumeFacts } from './other-copies.ts';

const id = volumeIdFor('a', 'data', 'data');
/** Node a has the volume, b is lost, c is another one. */
function fleet(): FleetState {
  const state = new FleetState();
  state.expect(['a', 'b', 'c']);
  tell(state, 'a', [id]);
  tell(state, 'c', []);
  return state;
}

const nothing: VolumeFacts = { moves: [], recordedOn: ['b'] };
const copy = { volumeId: id, node: 'a', otherNode: 'b' };
const fromLost = { ...copy, isOtherLost: true };

test('a node is lost once it is forgotten, and no replica of the controller has a link to it', () => {
  const state = fleet();
  assert.throws(() => requireNoOther(state, fromLost, nothing), {
    name: 'FailedPrecondition',
    message: /forget-node b comes first/,
  });
  state.forget([], ['b']);
  assert.throws(() => requireNoOther(state, fromLost, nothing), { name: 'Unavailable', message: /forgotten just now/ });
  state.forget(['b']);
  requireNoOther(state, fromLost, nothing);
  tell(state, 'b', []);
  assert.throws(() => requireNoOther(state, fromLost, nothing), { name: 'Unavailable', message: /forgotten just now/ });
});

test('a volume that went on from the lost node is not taken back, nor one that may have', () => {
  const moved = fleet();
  moved.forget(['b']);
  tell(moved, 'c', [id]);
  assert.throws(() => requireNoOther(moved, fromLost, nothing), {
    name: 'FailedPrecondition',
    message: /is on node c by now/,
  });
  const away = fleet();
  away.forget(['b']);
  away.away('c');
  assert.throws(() => requireNoOther(away, fromLost, nothing), {
    name: 'Unavailable',
    message: /may have moved on from node b.*c is away/,
  });
  tell(away, 'c', [], false);
  assert.throws(() => requireNoOther(away, fromLost, nothing), {
    name: 'Unavailable',
    message: /c has not reported all its volumes/,
  });
  tell(away, 'c', []);
  requireNoOther(away, fromLost, nothing);
});

test('nothing is taken back before Kubernetes has said which nodes there are', () => {
  const state = new FleetState();
  state.forget(['b']);
  tell(state, 'a', [id]);
  assert.throws(() => requireNoOther(state, fromLost, nothing), {
    name: 'Unavailable',
    message: /which nodes there are/,
  });
});

test('a volume is not taken back that moves on to a third node, or is there by its PersistentVolume', () => {
  const state = fleet();
  state.forget(['b']);
  const move = {
    id,
    from: 'data',
    to: 'data',
    fromNode: 'b',
    state: 'running',
    startedAt: '2026-01-01T00:00:00Z',
  } as const;
  const moves = [{ node: 'c', moveId: 'm', move }];
  assert.throws(() => requireNoOther(state, fromLost, { ...nothing, moves }), /moves to node c: cancel that first/);
  requireNoOther(state, fromLost, { ...nothing, moves: [{ node: 'a', moveId: 'm', move }] });
  assert.throws(
    () => requireNoOther(state, fromLost, { ...nothing, recordedOn: ['b', 'd'] }),
    /may be on node d, which its PersistentVolume names, and which is not there.*move --resume CLAIM.* --even-so does not .* forget-node d\.$/,
  );
});

test('a copy that waits as a whole on a third node may be a later one, whether its move runs or has failed', () => {
  const state = fleet();
  state.forget(['b']);
  const startedAt = '2026-01-01T00:00:00Z';
  const copyOf = { generation: 2, createdAt: startedAt };
  const whole = { id, from: 'data', to: 'other', copyOf, startedAt };
  const facts = (move: ToldMove['move'], node = 'c') => ({ ...nothing, moves: [{ node, moveId: 'm', move }] });
  for (const moveState of ['running', 'failed'] as const) {
    const told = { ...whole, state: moveState };
    assert.throws(() => requireNoOther(state, fromLost, facts({ ...told, fromNode: 'b' })), {
      name: 'FailedPrecondition',
      message:
        /waits on node c, .* move finish .* --node c --node-is-lost b, or --pool-is-lost data makes .* move cancel .* --node c --even-so/,
    });
    assert.throws(() => requireNoOther(state, fromLost, facts(told)), /move finish .* --node c --pool-is-lost data /);
    requireNoOther(state, fromLost, facts(told, 'a'));
  }
  requireNoOther(state, fromLost, facts({ ...whole, state: 'done' }));
  requireNoOther(state, fromLost, facts({ ...whole, copyOf: undefined, state: 'failed' }));
});

test('a node without anything of a volume stands against no copy, whatever a PersistentVolume names, by the second word', () => {
  const state = fleet();
  state.forget(['b']);
  const recorded = { moves: [], recordedOn: ['c'] };
  assert.throws(() => requireNoOther(state, fromLost, recorded), /may be on node c/);
  requireNoOther(state, fromLost, { ...recorded, without: ['c'] });
  tell(state, 'c', [id]);
  assert.throws(() => requireNoOther(state, fromLost, { ...recorded, without: ['c'] }), /is on node c by now/);
});

test('a volume that was taken back counts on another node only once that has no earlier copy', () => {
  const state = fleet();
  tell(state, 'b', [id]);
  state.takenBack(new Map([[id, 'a']]));
  assert.deepEqual([state.owners(id).map(({ node }) => node), state.doubted(id)], [['a'], ['b']]);
  assert.deepEqual([state.hasDoubted('a'), state.hasDoubted('b'), state.hasDoubted('c')], [false, true, false]);
  state.believe(id, 'b');
  assert.deepEqual([state.owners(id).map(({ node }) => node), state.doubted(id)], [['a', 'b'], []]);
  // Another link, another disk.
  tell(state, 'b', [id]);
  assert.deepEqual(state.doubted(id), ['b']);
});

test('the copies of a move are not used once a third node has the volume', () => {
  const state = fleet();
  requireOnlyAt(state, id, ['a', 'b']);
  tell(state, 'c', [id]);
  assert.throws(() => requireOnlyAt(state, id, ['a', 'b']), {
    name: 'FailedPrecondition',
    message: /is on node c by now, so a copy on node a or node b must not be used/,
  });
});

test('a node that has not said yet whether its copy is an earlier one may have the volume', () => {
  const state = fleet();
  tell(state, 'c', [id]);
  // It was taken back at node a, and has gone on to node c since.
  tell(state, 'a', []);
  state.takenBack(new Map([[id, 'a']]));
  const unsure = { name: 'Unavailable', message: /Node c has a copy of volume .*has not said yet/ };
  assert.throws(() => requireOnlyAt(state, id, ['a', 'b']), unsure);
  requireOnlyAt(state, id, ['a', 'c']);
  state.away('c');
  assert.throws(() => requireOnlyAt(state, id, ['a', 'b']), unsure);
  tell(state, 'c', [id]);
  state.believe(id, 'c');
  assert.throws(() => requireOnlyAt(state, id, ['a', 'b']), { name: 'FailedPrecondition', message: /is on node c/ });
});

test('a node that is there, and has nothing of a volume, gives it up only if no third one has it', () => {
  const state = fleet();
  tell(state, 'b', []);
  requireNoOther(state, copy, nothing);
  tell(state, 'c', [id]);
  assert.throws(() => requireNoOther(state, copy, nothing), /is on node c by now/);
  tell(state, 'c', [], false);
  assert.throws(() => requireNoOther(state, copy, nothing), /may have moved on from node b|is on node c/);
});

test('a copy that a pool of its node had is the volume only if all other nodes are there', () => {
  const state = fleet();
  tell(state, 'b', []);
  const alone = { volumeId: id, node: 'a' };
  requireNoOther(state, alone, { moves: [], recordedOn: ['a'] });
  assert.throws(
    () => requireNoOther(state, alone, { moves: [], recordedOn: ['b'] }),
    /may be on node b, which its PersistentVolume names, and which does not say that it has handed over the copy on node a/,
  );
  state.away('b');
  assert.throws(() => requireNoOther(state, alone, { moves: [], recordedOn: ['a'] }), {
    name: 'Unavailable',
    message: /no node that is there has it, and b is away since .*forget-node NODE, if one never comes back/,
  });
});

test('the move that is cancelled does not stand against the copy that it has left', () => {
  const state = fleet();
  tell(state, 'b', []);
  const started = { state: 'running', startedAt: '2026-01-01T00:00:00Z' } as const;
  const told = (node: string) => ({
    ...{ node, moveId: 'm' },
    move: { id, from: 'data', to: 'data', fromNode: 'a', ...started },
  });
  requireNoOther(state, copy, { ...nothing, moves: [told('b')] });
  assert.throws(() => requireNoOther(state, copy, { ...nothing, moves: [told('c')] }), /moves to node c: cancel/);
});

test('a node that a PersistentVolume names stands against a copy which it has not handed over, and one that has is only behind', () => {
  const state = fleet();
  tell(state, 'b', []);
  const behind = { moves: [], recordedOn: ['b', 'c'] };
  assert.throws(() => requireNoOther(state, copy, behind), /may be on node c, .* does not say that it has handed over/);
  requireNoOther(state, copy, { ...behind, before: ['c'] });
  tell(state, 'c', [id]);
  assert.throws(() => requireNoOther(state, copy, { ...behind, before: ['c'] }), /is on node c by now/);
  state.away('c');
  assert.throws(() => requireNoOther(state, copy, { ...behind, before: ['c'] }), { message: /is on node c by now/ });
});
