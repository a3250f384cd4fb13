import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { attachLoop, type LoopDevice } from '../../src/kernel/block/loop.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { findHolders } from '../../src/kernel/process/holders.ts';
import { attachDevice, attachedDevices } from '../../src/pool/attached-device.ts';
import { PoolQuarantined } from '../../src/pool/quarantine.ts';
import { SickPool } from '../../src/pool/supervisor/sick-pool.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { seenAs } from '../support/seen-device.ts';

const queue = new DiskQueue('other', 1);

/** As a clone's draft is shown for a moment, or as somebody shows an image with losetup(8). */
function attachByOther(backing: string): Promise<LoopDevice> {
  return attachLoop(queue, { backing, label: 'other', readonly: false, autoclear: true, blockSizeBytes: 512 });
}

describe('a device of an image that was not made for its volume', () => {
  test('is waited for when it is about to go: what is attached then is known as the volume', async () => {
    using scratch = new Scratch('devices');
    const pool = await openTestPool(scratch);
    const { id } = await pool.create(volumeSpec('waits'));
    const other = await attachByOther(scratch.join('pool', 'volumes', id, 'data'));
    const attaching = attachDevice(pool, id, { persistent: false });
    await delay(20);
    await other.descriptor[Symbol.asyncDispose]();
    const attachment = await attaching;
    assert.equal(await seenAs(pool, attachment.device), id);
    await attachment.release();
    await pool.remove(id);
    await pool.close();
  });

  test('is named when it stays, and never used: its mounts would be no volume', async () => {
    using scratch = new Scratch('devices');
    const pool = await openTestPool(scratch);
    const { id } = await pool.create(volumeSpec('refuses'));
    const other = await attachByOther(scratch.join('pool', 'volumes', id, 'data'));
    await assert.rejects(attachDevice(pool, id, { persistent: false }), (error) => {
      assert.ok(error instanceof FailedPrecondition);
      assert.match(error.message, new RegExp(`${other.devicePath}\\b`));
      return true;
    });
    await other.descriptor[Symbol.asyncDispose]();
    await pool.remove(id);
    await pool.close();
  });
});

describe('whose a device is', () => {
  test('is told anew after another volume was attached to the same device', async () => {
    using scratch = new Scratch('devices');
    const pool = await openTestPool(scratch);
    const volumes = await Promise.all(['a', 'b', 'c'].map((name) => pool.create(volumeSpec(name))));
    for (let round = 0; round < 3; round++) {
      for (const { id } of volumes) {
        const attachment = await attachDevice(pool, id, { persistent: false });
        assert.equal(await seenAs(pool, attachment.device), id);
        await attachment.release();
      }
    }
    for (const { id } of volumes) await pool.remove(id);
    await pool.close();
  });
});

describe('a device of another pool', () => {
  test('is left alone by a pool whose disk cannot be asked', async () => {
    using scratch = new Scratch('devices');
    const queue = new DiskQueue('sick', 4);
    const location = { type: 'directory', path: scratch.join('sick') } as const;
    const sick = await openTestPool(scratch, {
      name: 'sick',
      location,
      dataDirectory: scratch.join('data-sick'),
      queue,
    });
    const pool = await openTestPool(scratch);
    const { id } = await pool.create(volumeSpec('well', { content: { type: 'block' } }));
    await (await attachDevice(pool, id, { persistent: true })).release();
    const [attached = assert.fail()] = await pool.attached(id);
    const error = new PoolQuarantined('sick', new Date().toISOString(), 'its disk is sick');
    queue.close(error);
    await new SickPool(sick, error).detach(attached);
    assert.deepEqual(await pool.attached(id), [attached]);
    await pool.detach(attached);
    await eventually(async () => assert.deepEqual(await pool.attached(id), []));
    await pool.remove(id);
    await pool.close();
    sick.abandon();
  });
});

describe('a device that is published', () => {
  test('stays when the driver starts anew, also where /dev is a directory of another filesystem', async () => {
    using scratch = new Scratch('devices');
    const pool = await openTestPool(scratch);
    const { id } = await pool.create(volumeSpec('published', { content: { type: 'block' } }));
    const attachment = await attachDevice(pool, id, { persistent: true });
    const { device, devicePath } = attachment;
    await attachment.release();
    // Its node, in a directory of a filesystem with much else in it.
    mkdirSync(scratch.join('dev'));
    const node = scratch.join('dev', basename(devicePath));
    const target = scratch.join('target');
    execFileSync('mknod', [node, 'b', `${device.major}`, `${device.minor}`]);
    writeFileSync(target, '');
    execFileSync('mount', ['--bind', node, target]);
    await pool.close();
    const again = await openTestPool(scratch);
    assert.deepEqual(
      (await attachedDevices(again, id)).map((each) => each.devicePath),
      [devicePath],
    );
    const found = await findHolders({ devices: [{ device, devicePath }] }, 'mounts');
    assert.deepEqual(
      found.holders.map(({ path }) => path),
      [target],
    );
    execFileSync('umount', [target]);
    await again.close();
    // Seen nowhere any more it goes with the next start.
    const last = await openTestPool(scratch);
    await eventually(async () => assert.deepEqual(await last.attached(id), []));
    await last.close();
  });
});
