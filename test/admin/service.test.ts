import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { Pools } from '../../src/pool/pools.ts';
import { Aborted, Unavailable } from '../../src/volume/errors.ts';
import { ObjectQueue, volumeNameKey } from '../../src/volume/flow/object-queue.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const call = { note: () => undefined };

describe("the operator's commands", () => {
  test('take their turn with the calls for the same volume', async () => {
    using scratch = new Scratch('admin');
    const pool = await openTestPool(scratch, { undeleteSeconds: 3600 });
    const pools = new Pools(new Map([['test', async () => pool]]), 'test');
    await pools.open();
    try {
      const objects = new ObjectQueue(20);
      const admin = adminService({ nodeId: 'node', pools, objects });
      const { id } = await pool.create(volumeSpec('v'));
      await pool.remove(id);

      const held = new EventTarget();
      const other = objects.run(id, 'CreateVolume', '', () => once(held, 'end'));
      await assert.rejects(admin.restore({ id }, call), Aborted);
      await assert.rejects(admin.purge({ id }, call), Aborted);
      await assert.rejects(admin.purge({}, call), Aborted);
      held.dispatchEvent(new Event('end'));
      await other;
      const maker = objects.run(volumeNameKey('v'), 'CreateVolume', '', () => once(held, 'end'));
      await assert.rejects(admin.restore({ id }, call), Aborted);
      held.dispatchEvent(new Event('end'));
      await maker;
      // Two of one kind are one.
      const answers = await Promise.all([admin.restore({ id }, call), admin.restore({ id }, call)]);
      assert.deepEqual(answers, Array(2).fill({ id, name: 'v', pool: 'test' }));
      assert.notEqual(await pool.find(id), undefined);
    } finally {
      await pools.close();
    }
  });

  test('a pool that is not open may have it: "not in the trash" could be a lie', async () => {
    using scratch = new Scratch('admin');
    const pool = await openTestPool(scratch);
    const sick = () => Promise.reject(new Error('no such disk'));
    const pools = new Pools(
      new Map([
        ['test', async () => pool],
        ['sick', sick],
      ]),
      'test',
    );
    await pools.open();
    try {
      const admin = adminService({ nodeId: 'node', pools, objects: new ObjectQueue() });
      await assert.rejects(admin.restore({ id: volumeSpec('v').id }, call), Unavailable);
      const { problems, volumes } = await admin.listTrash({}, call);
      assert.deepEqual(volumes, []);
      assert.deepEqual(problems, ['pool sick could not be opened: no such disk']);
    } finally {
      await pools.close();
    }
  });
});
