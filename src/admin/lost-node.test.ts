import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseVolumeId } from '../volume/id.ts';
import { checkedByController } from './lost-node.ts';
import type { AdminHandlers } from './service.ts';

test('root makes no copy the volume by a second word while a controller is there that can ask all nodes', async () => {
  const id = parseVolumeId('vol-aaaaaaaaaaaaaaaaaaaaaaaaaa') ?? assert.fail();
  const call = { deadline: undefined, note: () => undefined };
  let isLinked = true;
  const asked: (boolean | undefined)[] = [];
  const cancelMove = async ({ evenSo }: { readonly evenSo?: boolean | undefined }) => {
    asked.push(evenSo);
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
  assert.deepEqual(asked, [undefined, true]);
});
