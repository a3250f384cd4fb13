/**
 * Runs in the virtual machine: what somebody does by hand in the volume group of a pool, and what others bring along.
 * node by-hand-in-guest.ts DISK…    three disks on scsi, of 128 MiB
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { mappedName } from '../../../src/pool/kinds/lvm/names.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { DataLoss, FailedPrecondition } from '../../../src/volume/errors.ts';
import { snapshotIdFor } from '../../../src/volume/id.ts';
import { stateOf } from '../../support/disk-state.ts';
import { eventually } from '../../support/eventually.ts';
import { groupFor, lvm, openTestLvm } from '../../support/lvm-pool.ts';
import { keepErrors } from '../../support/pool-log.ts';
import { Scratch } from '../../support/scratch.ts';
import {
  attach,
  disksWith,
  fill,
  idOf,
  lvNameOf,
  mebibyte,
  onlyPoolIsLeft,
  patienceMs,
  pattern,
  presentDisks,
  spec,
} from './layouts-scene.ts';

const shell = (command: string) => {
  const { stderr, stdout } = spawnSync('sh', ['-c', command], { encoding: 'utf8' });
  return `${stdout}${stderr}`;
};

async function withPool(
  volumeGroup: string,
  scratch: Scratch,
  errors: string[],
  work: (pool: Pool) => Promise<void>,
): Promise<void> {
  const pool = await openTestLvm(scratch, volumeGroup, { wipe: 'zero', log: keepErrors(errors) });
  try {
    await work(pool);
  } finally {
    await pool.close();
  }
}

function writeAt(devicePath: string, at: bigint, name: string): void {
  const device = openSync(devicePath, 'r+');
  writeSync(device, Buffer.alloc(Number(mebibyte), pattern(name)), 0, Number(mebibyte), Number(at));
  fsyncSync(device);
  closeSync(device);
}

describe('volumes that somebody changes by hand', () => {
  test('one that was made larger by lvextend is wiped to its end', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    await withPool(volumeGroup, scratch, [], async (pool) => {
      await pool.create(spec('grown'));
      const attachment = await attach(pool, 'grown');
      lvm('lvextend', '--size', '48m', `${volumeGroup}/${lvNameOf(volumeGroup, 'grown')}`);
      writeAt(attachment.devicePath, 40n * mebibyte, 'grown');
      assert.equal(disksWith('grown').length, 1);
      await pool.detach(attachment);
      await pool.remove(idOf('grown'));
      await onlyPoolIsLeft(volumeGroup);
      assert.deepEqual(disksWith('grown'), []);
    });
  });

  test('one that was made larger is copied as a whole, or not at all, and can be as large for its claim', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    await withPool(volumeGroup, scratch, [], async (pool) => {
      const { id } = await pool.create(spec('grown'));
      lvm('lvextend', '--size', '48m', `${volumeGroup}/${lvNameOf(volumeGroup, 'grown')}`);
      const attachment = await attach(pool, 'grown');
      writeAt(attachment.devicePath, 40n * mebibyte, 'grown');
      await pool.detach(attachment);
      const take = () =>
        pool.takeSnapshots([{ id: snapshotIdFor('node', 'cut'), name: 'cut', sourceId: id, parameters: {} }]);
      await assert.rejects(take(), /its logical volume has become larger than it is/);
      assert.equal((await pool.grow(id, 48n * mebibyte)).sizeBytes, 48n * mebibyte);
      const [snapshot] = await take();
      assert.equal(snapshot?.sizeBytes, 48n * mebibyte);
      const source = { type: 'snapshot', id: snapshotIdFor('node', 'cut') } as const;
      await pool.create(spec('copy', { sizeBytes: 48n * mebibyte }), source);
      const copy = await attach(pool, 'copy');
      assert.ok(
        readFileSync(copy.devicePath)
          .subarray(40 << 20)
          .includes(pattern('grown')),
      );
      await pool.detach(copy);
    });
  });

  test('one that was made smaller by lvreduce is not staged, and can be deleted', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    const errors: string[] = [];
    await withPool(volumeGroup, scratch, errors, async (pool) => {
      await pool.create(spec('cut'));
      lvm('lvreduce', '--force', '--yes', '--size', '8m', `${volumeGroup}/${lvNameOf(volumeGroup, 'cut')}`);
      await assert.rejects(attach(pool, 'cut'), DataLoss);
      assert.deepEqual(await pool.attached(idOf('cut')), []);
      await pool.remove(idOf('cut'));
      await eventually(() => assert.ok(lvNameOf(volumeGroup, 'cut') === '' || errors.length > 0), patienceMs);
      assert.deepEqual(errors, []);
    });
  });

  test('a snapshot that somebody has taken by LVM is his, and stays', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    const errors: string[] = [];
    await withPool(volumeGroup, scratch, errors, async (pool) => {
      await pool.create(spec('origin'));
      await fill(pool, 'origin');
      lvm(
        'lvcreate',
        '--yes',
        '--snapshot',
        '--size',
        '32m',
        '--name',
        'backup',
        `${volumeGroup}/${lvNameOf(volumeGroup, 'origin')}`,
      );
      await pool.remove(idOf('origin'));
      await eventually(
        () => assert.match(errors.join(), /a snapshot of it made by hand would be removed with it/),
        patienceMs,
      );
      lvm('lvchange', '--yes', '--activate', 'y', `${volumeGroup}/backup`);
      const backup = lvm('lvs', '--noheadings', '-o', 'lv_kernel_minor', `${volumeGroup}/backup`).trim();
      assert.ok(
        readFileSync(`/dev/dm-${backup}`).includes(pattern('origin')),
        'what was deleted is not wiped below it',
      );
      lvm('lvremove', '--yes', `${volumeGroup}/backup`);
      await onlyPoolIsLeft(volumeGroup);
      assert.deepEqual(disksWith('origin'), []);
    });
  });

  test('one that somebody has open is wiped once he has written his last', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    const errors: string[] = [];
    await withPool(volumeGroup, scratch, errors, async (pool) => {
      await pool.create(spec('late'));
      const minor = lvm(
        'lvs',
        '--noheadings',
        '-o',
        'lv_kernel_minor',
        `${volumeGroup}/${lvNameOf(volumeGroup, 'late')}`,
      ).trim();
      const device = openSync(`/dev/dm-${minor}`, 'r+');
      await pool.remove(idOf('late'));
      await eventually(() => assert.ok(errors.length > 0), patienceMs);
      writeSync(device, Buffer.alloc(Number(mebibyte), pattern('late')), 0, Number(mebibyte), 0);
      fsyncSync(device);
      closeSync(device);
      await eventually(() => assert.equal(lvNameOf(volumeGroup, 'late'), ''), patienceMs);
      assert.deepEqual(disksWith('late'), []);
    });
  });

  test('one can be deleted, and brought back, however little room the metadata of the group has left for others', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks().slice(0, 1));
    const freeBytes = () =>
      Number(lvm('vgs', '--noheadings', '--units', 'b', '--nosuffix', '-o', 'vg_mda_free', volumeGroup).trim());
    await withPool(volumeGroup, scratch, [], async (pool) => {
      const small = (name: string) => spec(name, { sizeBytes: 4n * mebibyte, wipe: 'none', undeleteSeconds: 3600 });
      await pool.create(small('kept'));
      let count = 0;
      const tags = (length: number) =>
        Array.from({ length }, () => ['--addtag', `${++count}`.padEnd(1000, 'x')]).flat();
      lvm('lvcreate', '--yes', '--zero', 'n', '--wipesignatures', 'n', '--extents', '1', '--name', 'his', volumeGroup);
      // But for 32 KiB: less than the sixteenth that is left to what is there.
      lvm('lvchange', ...tags(Math.floor((freeBytes() - 32_768) / 1004)), `${volumeGroup}/his`);
      // What others put there is known once LVM is asked.
      await pool.capacity();
      await assert.rejects(async () => {
        for (let at = 0; at < 20; at++) await pool.create(small(`more-${at}`));
      }, /the metadata of volume group .* has no room for another volume/);
      for (const { id } of await pool.list(undefined, undefined)) await pool.remove(id);
      assert.equal((await pool.restore(idOf('kept'))).name, 'kept');
    });
  });

  test('T03: a device that LVM was killed over before it had a table is made anew', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    await withPool(volumeGroup, scratch, [], async (pool) => {
      await pool.create(spec('cut short'));
      await fill(pool, 'cut short');
      const path = `${volumeGroup}/${lvNameOf(volumeGroup, 'cut short')}`;
      const uuids = lvm('lvs', '--noheadings', '-o', 'vg_uuid,lv_uuid', path).replaceAll(/[\s-]/g, '');
      const name = mappedName(volumeGroup, lvNameOf(volumeGroup, 'cut short'));
      shell(`dmsetup create --notable --uuid LVM-${uuids} ${name}`);
      assert.match(shell(`dmsetup info ${name}`), /Tables present: +None/);
      assert.deepEqual(await pool.attached(idOf('cut short')), []);
      await fill(pool, 'cut short');
      await pool.remove(idOf('cut short'));
      await onlyPoolIsLeft(volumeGroup);
    });
  });

  test('T03: a mirror of which LVM was killed over a part is activated all the same', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    await withPool(volumeGroup, scratch, [], async (pool) => {
      await pool.create(spec('half', { layout: 'raid1', sizeBytes: 8n * mebibyte }));
      const attachment = await attach(pool, 'half');
      const name = mappedName(volumeGroup, lvNameOf(volumeGroup, 'half'));
      for (const part of ['', '_rimage_1', '_rmeta_1']) shell(`dmsetup remove --noudevsync ${name}${part}`);
      assert.match(shell('dmsetup ls'), new RegExp(`${name}_rimage_0`));
      assert.deepEqual(await pool.attached(idOf('half')), []);
      await pool.detach(attachment);
      await fill(pool, 'half');
      await pool.remove(idOf('half'));
      await onlyPoolIsLeft(volumeGroup);
    });
  });

  test('a logical volume of somebody with the name of our own is told by its name', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    lvm(
      'lvcreate',
      '--yes',
      '--zero',
      'n',
      '--wipesignatures',
      'n',
      '--size',
      '4m',
      '--name',
      'holdfast-pool',
      volumeGroup,
    );
    await assert.rejects(openTestLvm(scratch, volumeGroup), /holdfast-pool that is not Holdfast's/);
  });

  test('lvm 13: one that somebody has activated, and nobody uses, is copied', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    await withPool(volumeGroup, scratch, [], async (pool) => {
      const { id } = await pool.create(spec('active'));
      await fill(pool, 'active');
      lvm('vgchange', '--activate', 'y', '--ignoreactivationskip', volumeGroup);
      assert.equal((await pool.attached(id)).length, 1);
      const cut = { id: snapshotIdFor('node', 'cut'), name: 'cut', sourceId: id, parameters: {} };
      await pool.takeSnapshots([cut]);
      await pool.removeSnapshot(cut.id);
      lvm('vgchange', '--activate', 'y', '--ignoreactivationskip', volumeGroup);
      await pool.create(spec('copy'), { type: 'volume', id });
    });
  });

  test('lvm 6: a logical volume of somebody that he has suspended stays so, with what he has loaded', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    lvm('lvcreate', '--yes', '--zero', 'n', '--wipesignatures', 'n', '--size', '4m', '--name', 'database', volumeGroup);
    const name = mappedName(volumeGroup, 'database');
    const dmsetup = (words: string) => shell(`dmsetup ${words}`);
    const before = dmsetup(`table ${name}`);
    dmsetup(`suspend --noflush --nolockfs ${name}`);
    dmsetup(`table ${name} | dmsetup load ${name}`);
    try {
      await withPool(volumeGroup, scratch, [], async (pool) => {
        await pool.create(spec('mine'));
        assert.match(dmsetup(`info ${name}`), /State: +SUSPENDED[\s\S]*Tables present: +LIVE & INACTIVE/);
      });
    } finally {
      dmsetup(`resume ${name}`);
    }
    assert.equal(dmsetup(`table ${name}`), before);
  });

  test('reports are read whatever lvm.conf says of how they look', async () => {
    using scratch = new Scratch('by-hand');
    const volumeGroup = groupFor(scratch, presentDisks());
    shell(
      'mkdir -p /run/etc-lvm && cp -r /etc/lvm/. /run/etc-lvm/ && printf "report {\\n list_item_separator=\\";\\"\\n compact_output=1\\n units=\\"g\\"\\n}\\n" >/run/etc-lvm/lvmlocal.conf',
    );
    shell('mount --bind /run/etc-lvm /etc/lvm');
    try {
      await withPool(volumeGroup, scratch, [], async (pool) => void (await pool.create(spec('a'))));
      await withPool(volumeGroup, scratch, [], async (pool) => {
        assert.equal((await pool.find(idOf('a')))?.name, 'a');
      });
    } finally {
      shell('umount /etc/lvm');
    }
  });
});

describe('disks that others bring along', () => {
  test('a copy of a disk of the group: neither of them is used, nor written to', async () => {
    using scratch = new Scratch('by-hand');
    const [first = '', second = ''] = presentDisks();
    const volumeGroup = groupFor(scratch, [first]);
    await withPool(volumeGroup, scratch, [], async (pool) => void (await pool.create(spec('mine'))));
    shell(`dd if=${first} of=${second} bs=1M conv=fsync status=none`);
    const before = [first, second].map(stateOf);
    try {
      await assert.rejects(openTestLvm(scratch, volumeGroup), {
        name: FailedPrecondition.name,
        message: new RegExp(
          `^pool test: ${first} and ${second} are one disk of volume group ${volumeGroup}, by their labels`,
        ),
      });
      assert.deepEqual([first, second].map(stateOf), before);
    } finally {
      shell(`dd if=/dev/zero of=${second} bs=1M conv=fsync status=none; blockdev --flushbufs ${second}`);
    }
    await withPool(volumeGroup, scratch, [], async (pool) => {
      assert.equal((await pool.find(idOf('mine')))?.name, 'mine');
    });
  });

  test('a group of the same name: it is told, and neither of them is changed', async () => {
    using scratch = new Scratch('by-hand');
    const [first = '', second = ''] = presentDisks();
    const volumeGroup = groupFor(scratch, [first]);
    await withPool(volumeGroup, scratch, [], async (pool) => void (await pool.create(spec('mine'))));
    lvm('vgcreate', '--yes', '--devices', second, volumeGroup, second);
    const before = [first, second].map(stateOf);
    try {
      await assert.rejects(openTestLvm(scratch, volumeGroup), {
        name: FailedPrecondition.name,
        message: new RegExp(`^pool test: two volume groups of this node are called ${volumeGroup} `),
      });
      assert.deepEqual([first, second].map(stateOf), before);
    } finally {
      lvm('vgremove', '--devices', second, '--force', '--force', '--yes', volumeGroup);
    }
  });

  test('lvm 4: another group that has the name by now, under a running pool: nothing is made or removed in it', async () => {
    using scratch = new Scratch('by-hand');
    const [first = '', second = ''] = presentDisks();
    const volumeGroup = groupFor(scratch, [first]);
    await withPool(volumeGroup, scratch, [], async (pool) => {
      await pool.create(spec('mine'));
      lvm('vgrename', volumeGroup, 'renamed');
      lvm('vgcreate', '--yes', volumeGroup, second);
      lvm(
        'lvcreate',
        '--yes',
        '--zero',
        'n',
        '--wipesignatures',
        'n',
        '--size',
        '4m',
        '--name',
        'precious',
        volumeGroup,
      );
      const before = [first, second].map(stateOf);
      const other = /is not the one that the pool was opened in, by its UUID/;
      try {
        await assert.rejects(pool.capacity(), other);
        await assert.rejects(pool.create(spec('more')), other);
        await assert.rejects(pool.remove(idOf('mine')), other);
        assert.deepEqual([first, second].map(stateOf), before);
      } finally {
        lvm('vgremove', '--force', '--force', '--yes', volumeGroup);
        lvm('vgrename', 'renamed', volumeGroup);
      }
      await pool.remove(idOf('mine'));
      await onlyPoolIsLeft(volumeGroup);
    });
  });
});
