import assert from 'node:assert/strict';
import { test } from 'node:test';
import { luksLayer } from '../../src/pool/layers/luks/luks-layer.ts';
import { InvalidArgument } from '../../src/volume/errors.ts';
import { BeforeStep } from '../support/before-step.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

test('an encrypted volume whose key is missing is refused before anything is written', async () => {
  using scratch = new Scratch('key');
  const options = { poolName: 'test', dataDirectory: scratch.join('data'), keyFile: undefined };
  const pool = await openTestPool(scratch, { layers: [(inner) => luksLayer(inner, options)] });
  using begin = new BeforeStep('create/directory', () => undefined);
  const content = { type: 'block' } as const;
  await assert.rejects(pool.create(volumeSpec('encrypted', { content, encryption: 'luks2' })), InvalidArgument);
  assert.equal(begin.hasHappened, false);
  await pool.create(volumeSpec('plain', { content }));
  assert.equal(begin.hasHappened, true);
  await pool.close();
});
