import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PoolSource } from '../../src/move/source.ts';
import { unstaged } from '../../src/pool/events.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { withTimeout } from '../../src/volume/flow/with-timeout.ts';
import { NodeHarness } from '../support/node-harness.ts';

const longMs = 60_000;

test('a source that waits for the end of the use of a volume sees it in the moment when that is unstaged', async () => {
  await using harness = await NodeHarness.open('end-of-use');
  const volume = await harness.volume('data', { type: 'mount', fsType: 'ext4' });
  const { id, pool } = { id: volume.id, pool: harness.pool };
  const signal = new AbortController().signal;
  const source = new PoolSource({ pool, id, moveId: 'move', objects: new ObjectQueue(), signal });
  await volume.stage();
  assert.equal((await source.look())?.isUsed, true);
  const looked = source.look(longMs);
  unstaged.publish({ volumeId: 'another' });
  assert.equal(await withTimeout(1_000, looked), 'late');
  await volume.unstage();
  const sight = await withTimeout(longMs / 2, looked);
  assert.ok(sight !== 'late', 'it has waited for its time');
  assert.equal(sight?.isUsed, false);
  assert.equal((await source.look(longMs))?.isUsed, false);
});
