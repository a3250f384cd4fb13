import assert from 'node:assert/strict';
import { test } from 'node:test';
import { volumeIdFor } from '../volume/id.ts';
import { checkedByController } from './lost-node.ts';
import type { AdminHandlers } from './service.ts';

const id = volumeIdFor('a', 'data', 'x');
const call = { deadline: undefined, note: () => undefined };
const asked: string[] = [];
const own = Object.fromEntries(
  ['restore', 'cancelMove', 'finishMove'].map((name) => [name, async () => asked.push(name)]),
) as unknown as AdminHandlers;

test('a word that the controller can check names the same order for kubectl, with all of its words', async () => {
  const { cancelMove, finishMove, restore } = checkedByController(own, async () => true);
  for (const [order, words] of [
    [
      () => restore({ id, lostNode: 'b' }, call),
      `checks whether node b is lost: kubectl holdfast trash restore ${id} --node-is-lost b,`,
    ],
    [
      () => restore({ id, lostPool: 'two', evenSo: true }, call),
      `one has volume ${id}: kubectl holdfast trash restore ${id} --pool-is-lost two --even-so,`,
    ],
    [
      () => cancelMove({ id, evenSo: true }, call),
      `one has volume ${id}: kubectl holdfast move cancel ${id} --even-so,`,
    ],
    [
      () => finishMove({ id, lostPool: 'data' }, call),
      `one has volume ${id}: kubectl holdfast move finish ${id} --pool-is-lost data,`,
    ],
    [
      () => finishMove({ id, lostNode: 'b', evenSo: true }, call),
      `kubectl holdfast move finish ${id} --node-is-lost b --even-so, with this node as --node.`,
    ],
  ] as const) {
    await assert.rejects(order, ({ message, name }: Error) => name === 'FailedPrecondition' && message.includes(words));
  }
  assert.deepEqual(asked, []);
  await restore({ id }, call);
  await cancelMove({ id }, call);
  assert.deepEqual(asked, ['restore', 'cancelMove']);
});

test('without a controller, root decides', async () => {
  asked.length = 0;
  await checkedByController(own, async () => false).finishMove({ id, lostNode: 'b', evenSo: true }, call);
  assert.deepEqual(asked, ['finishMove']);
});

test('root makes no copy the volume by a second word while a controller is there that can ask all nodes', async () => {
  let isLinked = true;
  const words: (boolean | undefined)[] = [];
  const cancelMove = async ({ evenSo }: { readonly evenSo?: boolean | undefined }) => {
    words.push(evenSo);
    return { id, from: 'one', to: 'two', state: 'cancelled', startedAt: '2026-11-26T00:00:00Z' } as const;
  };
  const root = checkedByController({ cancelMove } as unknown as AdminHandlers, async () => isLinked);
  await assert.rejects(root.cancelMove({ id, evenSo: true }, call), {
    name: 'FailedPrecondition',
    message: /the controller asks all nodes .* kubectl holdfast move cancel vol-\S+ --even-so/,
  });
  await root.cancelMove({ id }, call);
  isLinked = false;
  await root.cancelMove({ id, evenSo: true }, call);
  assert.deepEqual(words, [undefined, true]);
});
