import assert from 'node:assert/strict';
import { test } from 'node:test';
import pino from 'pino';
import type { FinishOrder } from '../../admin/service.ts';
import { contract, encode } from '../../csi/contract.ts';
import { volumeIdFor } from '../../volume/id.ts';
import { changeWishesOf } from '../view/request.ts';
import { type Changes, changeCalls } from './change.ts';

const id = volumeIdFor('a', 'data', 'name');

test('the second word for a copy that may be old comes to its node, and no other change takes it', async () => {
  const orders: FinishOrder[] = [];
  const changes = { finishMove: async (order: FinishOrder) => orders.push(order) } as unknown as Changes;
  const finish =
    changeCalls(changes, { log: pino({ level: 'silent' }) }).get('/holdfast.fleet.v1.Change/FinishMove') ??
    assert.fail();
  const requestType = contract.lookupType('holdfast.fleet.v1.ChangeRequest');
  for (const even_so of [false, true]) {
    const bytes = encode(requestType, { volume_id: id, lost_node: 'b', even_so });
    await finish({ bytes, deadline: undefined, isGone: () => false }, (reply) => assert.ok('response' in reply));
  }
  assert.deepEqual(
    orders.map(({ evenSo, lostNode }) => [lostNode, evenSo]),
    [
      ['b', false],
      ['b', true],
    ],
  );
  const query = `volume=${id}&even-so=true`;
  assert.equal(changeWishesOf('finish', `${query}&node-is-lost=b`).evenSo, true);
  for (const change of ['cancel', 'purge', 'restore'] as const) {
    assert.throws(() => changeWishesOf(change, query), /takes neither --dry-run nor --even-so/);
  }
  assert.throws(() => changeWishesOf('finish', `volume=${id}&node-is-lost=b&undo=true`), /takes neither/);
});
