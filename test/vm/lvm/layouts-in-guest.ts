/**
 * Runs in the virtual machine: volumes of a volume group that are striped or mirrored.
 * node layouts-in-guest.ts DISK…    three disks on scsi, of 128 MiB
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { ResourceExhausted } from '../../../src/volume/errors.ts';
import type { Layout } from '../../../src/volume/layout.ts';
import { eventually } from '../../support/eventually.ts';
import { groupFor, openTestLvm } from '../../support/lvm-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import {
  attach,
  disksWith,
  extentBytes,
  filledBytes,
  idOf,
  mebibyte,
  onlyPoolIsLeft,
  pattern,
  presentDisks,
  spec,
  table,
  writeAll,
} from './layouts-scene.ts';

describe('layouts of volumes in a volume group', () => {
  for (const layout of ['striped', 'raid1'] as const satisfies readonly Layout[]) {
    test(`GC04: ${layout}: what GetCapacity tells can be made, and nothing larger`, async () => {
      using scratch = new Scratch('layouts');
      const volumeGroup = groupFor(scratch, presentDisks());
      const pool = await openTestLvm(scratch, volumeGroup, { reserveBytes: 0n });
      // The disks do not have the same room any more.
      await pool.create(spec('linear', { sizeBytes: 64n * mebibyte, wipe: 'none' }));
      for (const round of [1, 2, 3]) {
        const { availableBytes, thickAvailableBytes } = await pool.capacity(layout);
        assert.equal(availableBytes, thickAvailableBytes);
        // What is left after the second lies on one disk, perhaps.
        if (round === 3 && availableBytes === 0n) break;
        assert.ok(availableBytes > 0n);
        const tooLarge = spec(`large-${round}`, { layout, sizeBytes: availableBytes + extentBytes });
        await assert.rejects(pool.create(tooLarge), ResourceExhausted);
        const record = await pool.create(spec(`fits-${round}`, { layout, sizeBytes: availableBytes, wipe: 'none' }));
        assert.equal(record.sizeBytes, availableBytes);
        if (round === 1) {
          await pool.remove(record.id);
          await eventually(() => assert.ok(!table(volumeGroup, 'lv_name').some((row) => row.startsWith(record.id))));
        }
      }
      await pool.close();
    });

    test(`${layout}: content, growth while in use, a restart, a copy of it`, async () => {
      using scratch = new Scratch('layouts');
      const volumeGroup = groupFor(scratch, presentDisks());
      let pool = await openTestLvm(scratch, volumeGroup);
      const made = await pool.create(spec('a', { layout, content: { type: 'mount', fsType: 'ext4' } }));
      const words = layout === 'raid1' ? 'raid,raid1' : 'striped';
      assert.ok(table(volumeGroup, 'lv_layout,lv_name').some((row) => row.startsWith(`${words} ${made.id}`)));
      const attachment = await attach(pool, 'a');
      writeAll(attachment.devicePath, 'a');
      // With three stripes it is no whole number of them.
      const grown = await pool.grow(made.id, 40n * mebibyte);
      assert.equal(grown.sizeBytes, 40n * mebibyte);
      assert.equal(
        Number(readFileSync(`/sys/class/block/${attachment.devicePath.slice(5)}/size`, 'utf8')) * 512 >= 40 * 2 ** 20,
        true,
      );
      await pool.detach(attachment);
      await pool.close();
      pool = await openTestLvm(scratch, volumeGroup);
      assert.equal(
        (await pool.find(made.id))?.sizeBytes,
        40n * mebibyte,
        'what stripes are rounded up to is not its size',
      );
      const source = { type: 'volume', id: made.id } as const;
      await pool.create(spec('copy', { layout, sizeBytes: 40n * mebibyte }), source);
      const copy = await attach(pool, 'copy');
      const start = readFileSync(copy.devicePath).subarray(0, filledBytes);
      assert.ok(start.equals(Buffer.alloc(filledBytes, Buffer.alloc(Number(mebibyte), pattern('a')))));
      await pool.detach(copy);
      if (layout === 'raid1') await legsLieApart(volumeGroup);
      for (const name of ['a', 'copy']) await pool.remove(idOf(name));
      await onlyPoolIsLeft(volumeGroup);
      assert.deepEqual(disksWith('a'), []);
      await pool.close();
    });
  }

  test('too few disks are told, and a volume is as large as asked for', async () => {
    using scratch = new Scratch('layouts');
    const volumeGroup = groupFor(scratch, presentDisks().slice(0, 1));
    const pool = await openTestLvm(scratch, volumeGroup);
    for (const layout of ['striped', 'raid1'] as const) {
      assert.equal((await pool.capacity(layout)).availableBytes, 0n);
      await assert.rejects(pool.create(spec('alone', { layout })), {
        name: ResourceExhausted.name,
        message: `pool test: a volume with layout ${layout} needs two disks or more, and volume group ${volumeGroup} has 1 that can be used: extend it.`,
      });
    }
    await pool.close();
  });
});

async function legsLieApart(volumeGroup: string): Promise<void> {
  for (const row of table(volumeGroup, 'lv_name,devices').filter((each) => each.includes('_rimage_0] '))) {
    const [name = '', device = ''] = row.split(' ');
    const other = table(volumeGroup, 'lv_name,devices').find((each) => each.startsWith(name.replace('_0]', '_1]')));
    assert.ok(other !== undefined && !other.includes(device.replace(/\(.*/, '')), `${row}, ${other}`);
  }
}
