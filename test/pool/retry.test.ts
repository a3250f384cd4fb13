import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { groupIdFor, memberIdFor } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

describe('the retry of what failed at its last step', () => {
  test('GR10 CS09: a group whose record could not be written; what is unlinked behind the failure is not the retry’s', async () => {
    using scratch = new Scratch('retry');
    const pool = await openTestPool(scratch, {
      location: { type: 'file', path: scratch.join('pool.img'), sizeBytes: 2n << 30n },
    });
    const root = scratch.join('data/pools/test');
    const { id } = await pool.create(volumeSpec('source'));
    const group = { id: groupIdFor('node', 'g'), name: 'g', parameters: {} };
    const member = memberIdFor(group.id, id);
    const cut = () => pool.takeSnapshots([{ id: member, name: 'g', sourceId: id, parameters: {} }], group);
    for (let round = 0; round < 5; round++) {
      execFileSync('chattr', ['+i', `${root}/groups`]);
      try {
        await assert.rejects(cut(), { code: 'EPERM' });
        assert.deepEqual(await pool.listSnapshots(undefined, undefined), []);
      } finally {
        execFileSync('chattr', ['-i', `${root}/groups`]);
      }
      // At once: what the failure left is still being unlinked.
      await cut();
      await eventually(() => assert.deepEqual([...readdirSync(`${root}/trash`), ...readdirSync(`${root}/tmp`)], []));
      assert.ok(existsSync(`${root}/snapshots/${member}/data`));
      await pool.removeGroup(group.id);
    }
    await pool.close();
  });
});
