/**
 * Runs in the virtual machine: what becomes of the data of volumes that are deleted, and mirrors that lose a disk.
 * node mirrors-in-guest.ts DISK…    three disks on scsi, of 128 MiB
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { groupFor, lvm, openTestLvm } from '../../support/lvm-pool.ts';
import { keepErrors } from '../../support/pool-log.ts';
import { Scratch } from '../../support/scratch.ts';
import { openLvmWithLayer } from '../luks/encrypted-pool.ts';
import {
  attach,
  deviceOf,
  disksWith,
  fill,
  idOf,
  isAbnormal,
  isInStep,
  lvNameOf,
  mebibyte,
  onlyPoolIsLeft,
  patienceMs,
  pattern,
  poolDisk,
  presentDisks,
  pull,
  putBack,
  spec,
  table,
  writeAll,
} from './layouts-scene.ts';

const headerBytes = 16n * mebibyte;

describe('what becomes of the data of a volume', () => {
  test('its class says so, also of its snapshots and of what is made from them', async () => {
    using scratch = new Scratch('wipe');
    const volumeGroup = groupFor(scratch, presentDisks());
    const pool = await openTestLvm(scratch, volumeGroup, { wipe: 'none' });
    for (const wipe of ['zero', 'discard', 'none'] as const) {
      await pool.create(spec(wipe, { wipe }));
      await fill(pool, wipe);
      const id = snapshotIdFor('node', wipe);
      await pool.takeSnapshots([{ id, name: wipe, sourceId: idOf(wipe), parameters: {} }]);
      await pool.create(spec(`of-${wipe}`), { type: 'snapshot', id });
      await pool.remove(idOf(wipe));
      await pool.removeSnapshot(id);
      // Its record is written anew meanwhile.
      await pool.modify(idOf(`of-${wipe}`), { undeleteSeconds: 3600 });
      await pool.remove(idOf(`of-${wipe}`));
      await pool.restore(idOf(`of-${wipe}`));
      await pool.modify(idOf(`of-${wipe}`), { undeleteSeconds: 0 });
      await pool.remove(idOf(`of-${wipe}`));
      await onlyPoolIsLeft(volumeGroup);
      assert.deepEqual(disksWith(wipe).length > 0, wipe === 'none', wipe);
    }
    await pool.close();
  });

  test('a mirror is wiped on both its disks, also if one is away when it is deleted', async () => {
    using scratch = new Scratch('wipe');
    const volumeGroup = groupFor(scratch, presentDisks());
    let pool = await openTestLvm(scratch, volumeGroup, { wipe: 'zero' });
    await pool.create(spec('mirror', { layout: 'raid1' }));
    const attachment = await attach(pool, 'mirror');
    writeAll(attachment.devicePath, 'mirror');
    await isInStep(pool, 'mirror');
    const legs = disksWith('mirror');
    assert.equal(legs.length, 2);
    const pulled = legs.find((path) => path !== poolDisk(volumeGroup)) ?? '';
    // On the disk that stays; nothing of it needs to be wiped.
    const staying = presentDisks().filter((path) => path !== pulled);
    lvm('pvchange', '--allocatable', 'n', pulled);
    await pool.create(spec('linear', { wipe: 'none' }));
    lvm('pvchange', '--allocatable', 'y', pulled);
    assert.ok(
      staying.some((path) =>
        table(volumeGroup, 'lv_name,devices').some((row) => row.startsWith(idOf('linear')) && row.includes(path)),
      ),
    );
    await pool.detach(attachment);
    await pool.close();
    // As a driver leaves them that dies at its answer.
    for (const name of ['mirror', 'linear']) {
      const path = `${volumeGroup}/${lvNameOf(volumeGroup, name)}`;
      lvm('lvchange', '--deltag', 'holdfast.volume', '--addtag', 'holdfast.removed', path);
    }

    lvm('lvchange', '--activate', 'y', '--ignoreactivationskip', `${volumeGroup}/${lvNameOf(volumeGroup, 'mirror')}`);
    const host = await pull(pulled);
    // So that the kernel knows.
    writeAll(deviceOf(volumeGroup, 'mirror'), 'mirror');
    const complaints: string[] = [];
    const log = keepErrors(complaints);
    pool = await openTestLvm(scratch, volumeGroup, { wipe: 'zero', log });
    await eventually(() => {
      assert.match(complaints.join('\n'), /was deleted while a disk of its mirror was away/);
      assert.match(complaints.join('\n'), /a disk of volume group .* is missing/);
    }, patienceMs);
    await pool.close();
    for (const name of ['mirror', 'linear']) assert.notEqual(lvNameOf(volumeGroup, name), '', 'it is gone');

    await putBack(host, volumeGroup);
    assert.equal(lvm('vgs', '--noheadings', '-o', 'vg_missing_pv_count', volumeGroup).trim(), '0');
    // It is out of step, and then it is not active any more.
    complaints.length = 0;
    pool = await openTestLvm(scratch, volumeGroup, { wipe: 'zero', log });
    await eventually(() => assert.match(complaints.join('\n'), /was deleted while a disk/), patienceMs);
    await pool.close();
    pool = await openTestLvm(scratch, volumeGroup, { wipe: 'zero' });
    await onlyPoolIsLeft(volumeGroup);
    await pool.close();
    assert.deepEqual(disksWith('mirror'), []);
  });
});

describe('encrypted volumes on several disks', () => {
  for (const layout of ['striped', 'raid1'] as const) {
    test(`${layout}: what GetCapacity tells, content, growth, a restart`, async () => {
      using scratch = new Scratch('encrypted');
      const volumeGroup = groupFor(scratch, presentDisks());
      let pool = await openLvmWithLayer(scratch, volumeGroup, { wipe: 'none' });
      const { id } = await pool.create(spec('secret', { layout, encryption: 'luks2' }));
      let attachment = await attach(pool, 'secret');
      writeAll(attachment.devicePath, 'secret');
      assert.equal((await pool.grow(id, 40n * mebibyte)).sizeBytes, 40n * mebibyte);
      await pool.detach(attachment);
      assert.deepEqual(disksWith('secret'), []);
      await pool.close();
      pool = await openLvmWithLayer(scratch, volumeGroup, { wipe: 'none' });
      assert.equal((await pool.find(id))?.sizeBytes, 40n * mebibyte);
      attachment = await attach(pool, 'secret');
      const start = readFileSync(attachment.devicePath).subarray(0, Number(mebibyte));
      assert.ok(start.equals(Buffer.alloc(Number(mebibyte), pattern('secret'))));
      await pool.detach(attachment);
      const { availableBytes } = await pool.capacity(layout);
      const sizeBytes = availableBytes - headerBytes;
      await pool.create(spec('rest', { layout, encryption: 'luks2', sizeBytes }));
      for (const name of ['secret', 'rest']) await pool.remove(idOf(name));
      await onlyPoolIsLeft(volumeGroup);
      await pool.close();
    });
  }
});

describe('a mirror', () => {
  test('goes on with one disk, and is brought in step with the one that comes back', async (t) => {
    using scratch = new Scratch('mirror');
    const volumeGroup = groupFor(scratch, presentDisks());
    const pool = await openTestLvm(scratch, volumeGroup, { wipe: 'zero' });
    await pool.create(spec('mirror', { layout: 'raid1' }));
    let attachment = await attach(pool, 'mirror');
    writeAll(attachment.devicePath, 'at first');
    await isInStep(pool, 'mirror');
    const [pulled = ''] = disksWith('at first').filter((path) => path !== poolDisk(volumeGroup));

    // In use.
    let host = await pull(pulled);
    writeAll(attachment.devicePath, 'with one disk');
    await isAbnormal(pool, 'mirror', /^A disk of its mirror is missing: its data is there, but only once/);
    await assert.rejects(pool.grow(idOf('mirror'), 40n * mebibyte), /a disk of volume group .* is missing/);
    await putBack(host, volumeGroup);
    await isAbnormal(pool, 'mirror', /^A disk of its mirror was away and is out of step/);
    for (const _ of [1, 2]) lvm('lvchange', '--refresh', `${volumeGroup}/${lvNameOf(volumeGroup, 'mirror')}`);
    t.diagnostic(lvm('lvs', '--noheadings', '-o', 'lv_attr,lv_health_status,sync_percent', volumeGroup));
    await pool.detach(attachment);
    attachment = await attach(pool, 'mirror');
    await isInStep(pool, 'mirror');
    assert.equal(disksWith('with one disk').length, 2);
    assert.deepEqual(disksWith('at first'), []);

    // And while nobody uses it.
    await pool.detach(attachment);
    const [again = ''] = disksWith('with one disk').filter((path) => path !== poolDisk(volumeGroup));
    host = await pull(again);
    attachment = await attach(pool, 'mirror');
    const start = readFileSync(attachment.devicePath).subarray(0, Number(mebibyte));
    assert.ok(start.equals(Buffer.alloc(Number(mebibyte), pattern('with one disk'))));
    writeAll(attachment.devicePath, 'staged with one');
    await pool.detach(attachment);
    await putBack(host, volumeGroup);
    attachment = await attach(pool, 'mirror');
    await isInStep(pool, 'mirror');
    assert.equal(disksWith('staged with one').length, 2);
    assert.deepEqual(disksWith('with one disk'), []);
    await pool.detach(attachment);
    await pool.remove(idOf('mirror'));
    await onlyPoolIsLeft(volumeGroup);
    await pool.close();
  });

  test('gets another disk for one that is lost, as the document says', async () => {
    using scratch = new Scratch('mirror');
    const [first = '', second = '', third = ''] = presentDisks();
    const volumeGroup = groupFor(scratch, [first, second]);
    const pool = await openTestLvm(scratch, volumeGroup, { wipe: 'none' });
    await pool.create(spec('mirror', { layout: 'raid1' }));
    const attachment = await attach(pool, 'mirror');
    writeAll(attachment.devicePath, 'kept');
    await isInStep(pool, 'mirror');
    const lost = [first, second].find((path) => path !== poolDisk(volumeGroup)) ?? '';
    const host = await pull(lost);
    lvm('vgextend', '--yes', volumeGroup, third);
    lvm('lvconvert', '--yes', '--repair', `${volumeGroup}/${lvNameOf(volumeGroup, 'mirror')}`);
    lvm('vgreduce', '--removemissing', volumeGroup);
    // What was known of the group is out of date, at first.
    await eventually(() => pool.grow(idOf('mirror'), 40n * mebibyte).then(() => undefined), patienceMs);
    await isInStep(pool, 'mirror');
    assert.ok(disksWith('kept').includes(third));
    await pool.detach(attachment);
    await pool.remove(idOf('mirror'));
    await onlyPoolIsLeft(volumeGroup);
    await pool.close();
    writeFileSync(`/sys/class/scsi_host/host${host}/scan`, '- - -');
  });
});
