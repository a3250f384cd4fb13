import assert from 'node:assert/strict';
import { test } from 'node:test';
import type * as wire from '../../csi/generated/types.ts';
import { volumeIdFor } from '../../volume/id.ts';
import { FleetState } from './fleet-state.ts';
import { requireLost } from './lost-node.ts';

const id = volumeIdFor('a', 'data', 'data');
const entry = { kind: 'VOLUME', id, name: 'data', pool: 'data', source_id: '', group_id: '', adopted: false } as const;

function tell(state: FleetState, node: string, put: readonly wire.InventoryEntry[], isComplete = true): void {
  const inventory = state.linked(node);
  inventory.apply({ revision: 1n, starts: true, complete: isComplete, put: [...put], gone: [], pools: [] });
  state.told(node, inventory);
}

/** Node a has the volume, b is lost, c is another one. */
function fleet(): FleetState {
  const state = new FleetState();
  state.expect(['a', 'b', 'c']);
  tell(state, 'a', [entry]);
  tell(state, 'c', []);
  return state;
}

const copy = { volumeId: id, node: 'a', lostNode: 'b' };

test('a node is lost once it is forgotten, and no replica of the controller has a link to it', () => {
  const state = fleet();
  assert.throws(() => requireLost(state, copy), { name: 'FailedPrecondition', message: /forget-node b comes first/ });
  state.forget([], ['b']);
  assert.throws(() => requireLost(state, copy), { name: 'Unavailable', message: /forgotten just now/ });
  state.forget(['b']);
  requireLost(state, copy);
  tell(state, 'b', []);
  assert.throws(() => requireLost(state, copy), { name: 'Unavailable', message: /forgotten just now/ });
});

test('a volume that went on from the lost node is not taken back, nor one that may have', () => {
  const moved = fleet();
  moved.forget(['b']);
  tell(moved, 'c', [entry]);
  assert.throws(() => requireLost(moved, copy), { name: 'FailedPrecondition', message: /is on node c by now/ });
  const away = fleet();
  away.forget(['b']);
  away.away('c');
  assert.throws(() => requireLost(away, copy), {
    name: 'Unavailable',
    message: /may have moved on from node b.*c is away/,
  });
  tell(away, 'c', [], false);
  assert.throws(() => requireLost(away, copy), { name: 'Unavailable', message: /c has not reported all its volumes/ });
  tell(away, 'c', []);
  requireLost(away, copy);
});

test('nothing is taken back before Kubernetes has said which nodes there are', () => {
  const state = new FleetState();
  state.forget(['b']);
  tell(state, 'a', [entry]);
  assert.throws(() => requireLost(state, copy), { name: 'Unavailable', message: /which nodes there are/ });
});
