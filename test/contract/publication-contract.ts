import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FailedPrecondition, NotFound } from '../../src/volume/errors.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { mounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import { type PoolUnderTest, specsOf } from './pool-contract.ts';

/** Where a volume is published: what every kind of pool must keep of it. */
export function describePublication(kind: string, { content, isOneVolume, open }: PoolUnderTest): void {
  const specOf = specsOf(content);
  describe(`${kind}: publication`, () => {
    const publication = { nodeId: 'node-1', mode: 'SINGLE_NODE_WRITER', readonly: true } as const;

    test('CP08 G04: is kept with the volume, across changes and a restart, and not by what is made from it', async () => {
      using scratch = new Scratch('publication');
      const pool = await open(scratch);
      const volume = await pool.create(specOf('a', { mutableParameters: { undelete: '0' } }));
      assert.equal(volume.publication, undefined);
      for (const _try of [1, 2]) {
        assert.deepEqual(await pool.setPublication(volume.id, publication), { ...volume, publication });
      }
      if (!isOneVolume) {
        const clone = await pool.create(specOf('clone'), { type: 'volume', id: volume.id });
        assert.equal(clone.publication, undefined);
        await pool.grow(volume.id, volume.sizeBytes * 2n);
      }
      await pool.modify(volume.id, { undeleteSeconds: 60 });
      await pool.close();
      const again = await open(scratch);
      const found = await again.find(volume.id);
      assert.deepEqual(found?.publication, publication);
      assert.deepEqual(found?.mutableParameters, { undelete: '0' });
      for (const _try of [1, 2]) {
        assert.equal((await again.setPublication(volume.id, undefined)).publication, undefined);
      }
      await again.close();
    });

    test('CU04: does not end while the volume is attached; it may begin', async () => {
      using scratch = new Scratch('publication');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('a'));
      {
        await using _inUse = await mounted(pool, id, scratch);
        await pool.setPublication(id, publication);
        await assert.rejects(pool.setPublication(id, undefined), FailedPrecondition);
      }
      assert.deepEqual((await pool.find(id))?.publication, publication);
      await assert.rejects(pool.setPublication(volumeIdFor('node', 'test', 'never'), publication), NotFound);
      await pool.close();
    });
  });
}
