import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Pool } from '../../src/pool/pool.ts';
import { ephemeralIdFor, type VolumeId } from '../../src/volume/id.ts';
import type { volumeSpec } from '../support/image-pool.ts';
import { mounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import { specsOf } from './pool-contract.ts';
import type { PoolWithOptions } from './trash-contract.ts';

async function ephemeral(pool: Pool, handle: string, specOf: typeof volumeSpec): Promise<VolumeId> {
  const id = ephemeralIdFor('node', handle);
  await pool.create(specOf(handle, { id, ephemeral: { handle, digest: 'x' }, undeleteSeconds: 0 }));
  return id;
}

/** What every kind of pool must do with volumes that live no longer than their mount. */
export function describeEphemeral(kind: string, { content, open }: PoolWithOptions): void {
  const specOf = specsOf(content);
  describe(`${kind}: ephemeral volumes`, () => {
    test('are found and kept as others are, but not listed', async () => {
      using scratch = new Scratch('ephemeral');
      const pool = await open(scratch);
      const id = await ephemeral(pool, 'csi-0', specOf);
      const { id: persistent } = await pool.create(specOf('persistent'));
      assert.deepEqual((await pool.find(id))?.ephemeral, { handle: 'csi-0', digest: 'x' });
      const listed = await pool.list(undefined, undefined);
      assert.deepEqual(
        listed.map((record) => record.id),
        [persistent],
      );
      assert.ok((await pool.capacity()).provisionedBytes >= 128n << 20n);
      await pool.close();
    });

    test('T04: those that nobody uses go when the pool is opened, not into the trash; those in use stay', async () => {
      using scratch = new Scratch('ephemeral');
      const first = await open(scratch, { undeleteSeconds: 3600 });
      const used = await ephemeral(first, 'csi-used', specOf);
      const unused = await ephemeral(first, 'csi-unused', specOf);
      const volume = await mounted(first, used, scratch);
      await first.close();
      const second = await open(scratch, { undeleteSeconds: 3600 });
      assert.notEqual(await second.find(used), undefined);
      assert.equal(await second.find(unused), undefined);
      assert.deepEqual(await second.trash(), []);
      await volume[Symbol.asyncDispose]();
      await second.remove(used);
      assert.deepEqual(await second.trash(), []);
      await second.close();
    });
  });
}
