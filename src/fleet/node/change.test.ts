import assert from 'node:assert/strict';
import { test } from 'node:test';
import pino from 'pino';
import type { CancelOrder, FinishOrder } from '../../admin/service.ts';
import { contract, encode } from '../../csi/contract.ts';
import { volumeIdFor } from '../../volume/id.ts';
import { changeWishesOf } from '../view/request.ts';
import { type Changes, changeCalls } from './change.ts';

const id = volumeIdFor('a', 'data', 'name');

test('the second word for a copy that may be old, or the last one, comes to its node, and no other change takes it', async () => {
  const orders: (CancelOrder | FinishOrder)[] = [];
  const note = async (order: CancelOrder | FinishOrder) => orders.push(order);
  const changes = { finishMove: note, cancelMove: note, restore: note } as unknown as Changes;
  const calls = changeCalls(changes, { log: pino({ level: 'silent' }) });
  const requestType = contract.lookupType('holdfast.fleet.v1.ChangeRequest');
  for (const rpc of ['FinishMove', 'CancelMove', 'GiveUpMove', 'RestoreTrashed']) {
    for (const even_so of [false, true]) {
      const bytes = encode(requestType, { volume_id: id, lost_node: 'b', even_so });
      const call = calls.get(`/holdfast.fleet.v1.Change/${rpc}`) ?? assert.fail();
      await call({ bytes, deadline: undefined, isGone: () => false }, (reply) => assert.ok('response' in reply));
    }
  }
  const words = [false, true].map((evenSo) => ['b', evenSo]);
  assert.deepEqual(
    orders.map(({ evenSo, lostNode }) => [lostNode, evenSo]),
    [...words, ...words, ...words, ...words],
  );
  const query = `volume=${id}&even-so=true`;
  assert.equal(changeWishesOf('finish', `${query}&node-is-lost=b`).evenSo, true);
  assert.equal(changeWishesOf('cancel', query).evenSo, true);
  assert.equal(changeWishesOf('restore', query).evenSo, true);
  assert.throws(() => changeWishesOf('purge', query), /takes neither --dry-run nor --even-so/);
  assert.throws(() => changeWishesOf('finish', `volume=${id}&node-is-lost=b&undo=true`), /takes neither/);
});
