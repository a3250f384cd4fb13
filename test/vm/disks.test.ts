import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { shapes } from '../../src/cli/output/shapes.ts';
import { eventually } from '../support/eventually.ts';
import { startNode } from './node/start-node.ts';

/** What is done with each disk, `$disk`, and why it is then not free; nothing: it is. */
const fates: Readonly<Record<string, { readonly shell: string; readonly reasons: readonly RegExp[] }>> = {
  blank: { shell: 'true', reasons: [] },
  // What was wiped, but for its last sector: RAID has its signature there, and a database could have anything.
  'end-of-data': {
    shell: 'head -c 512 /dev/urandom | dd of=$disk bs=512 seek=$(($(blockdev --getsz $disk) - 1)) conv=fsync',
    reasons: [/^it holds data of an unknown kind$/],
  },
  filesystem: { shell: 'mkfs.ext4 -q $disk', reasons: [/^it holds a filesystem \(ext4\)$/] },
  elsewhere: {
    // Only another mount namespace has it.
    shell: `mkfs.ext4 -q $disk && mkdir -p /run/elsewhere && {
      setsid unshare --mount sh -c "mount $disk /run/elsewhere && touch /run/there && sleep infinity" </dev/null >/dev/null 2>&1 &
    } && until [ -e /run/there ]; do sleep 0.1; done`,
    reasons: [/^it is mounted at \/run\/elsewhere$/, /^it holds a filesystem \(ext4\)$/],
  },
  parts: {
    // By hand, as few machines have a program for it: one partition of Linux from 1 MiB on.
    shell: [
      String.raw`printf '\0\0\0\0\203\0\0\0\0\010\0\0\0\0\001\0' | dd of=$disk bs=1 seek=446 conv=fsync`,
      String.raw`printf '\125\252' | dd of=$disk bs=1 seek=510 conv=fsync && blockdev --rereadpt $disk`,
    ].join(' && '),
    reasons: [/^it holds a partition table \(dos, 1 partition\)$/],
  },
  swap: { shell: 'mkswap -q $disk && swapon $disk', reasons: [/^\/dev\/sd. is swapped to$/, /^it holds swap$/] },
  volumes: {
    shell: 'lvm vgcreate --quiet --yes vg0 $disk && lvm lvcreate --quiet --yes --size 64m --name data vg0',
    reasons: [/^dm-0 \(vg0-data\) is made of it$/, /^it holds LVM2_member$/],
  },
  readonly: { shell: 'blockdev --setro $disk', reasons: [/^it is read-only$/] },
  twin: { shell: 'true', reasons: [/^sd. has the same identity$/] },
};

/** What reads both ends of ten disks in a moment, elsewhere. */
const patienceMs = 600_000;
const sizeGiB = 1 / 8;
const names = [...Object.keys(fates), 'other-twin'];
const prepare = [
  'modprobe -a virtio_scsi sd_mod dm_mod',
  `until [ $(ls -d /sys/block/sd* 2>/dev/null | wc -l) = ${names.length} ]; do sleep 0.1; done`,
  ...Object.entries(fates).map(
    ([name, { shell }]) =>
      `disk=/dev/$(basename $(dirname $(dirname $(grep -l ${name} /sys/block/sd*/device/vpd_pg80 | head -n 1)))) && ${shell} || exit 1`,
  ),
].join('\n');

describe('holdfast disks', () => {
  test('shows each disk of a node, and why it is or is not free; of none it changes a byte', async (t) => {
    await using started = await startNode(t, {
      config: 'pools: { default: { device: /dev/vdb, sickAfter: 10m } }\n',
      pools: ['default'],
      disks: [
        { name: 'pool', sizeGiB: 1 },
        { name: 'nameless', sizeGiB },
        ...names.map((name) => {
          const serial = name === 'other-twin' ? 'twin' : name;
          return { name, sizeGiB, bus: 'scsi', serial } as const;
        }),
      ],
      prepare,
    });
    const { node } = started;
    // On one that is mounted, ext4 goes on by itself with what mkfs has left to it.
    const untouched = started.disks.filter(({ name }) => !['system', 'pool', 'elsewhere'].includes(name));
    const writes = () => untouched.map((disk) => disk.writes);
    await node.vm.run('sync');
    const before = writes();
    // On a busy machine a disk may be silent for long.
    let printed = '';
    await eventually(async () => {
      const { code, stderr, stdout } = await node.command('disks --json');
      assert.equal(code, 0, stderr);
      assert.doesNotMatch(stdout, /has not answered/);
      printed = stdout;
    }, patienceMs);
    const { disks } = shapes.disks.parse(JSON.parse(printed));
    assert.deepEqual(writes(), before, 'none of the disks is written to');
    for (const [serial, { reasons }] of Object.entries(fates)) {
      const found = disks.filter((disk) => disk.serial === serial);
      assert.equal(found.length, serial === 'twin' ? 2 : 1, serial);
      for (const disk of found) {
        assert.equal(disk.reasons.length, reasons.length, `${serial}: ${disk.reasons.join('; ')}`);
        for (const [index, reason] of reasons.entries()) assert.match(disk.reasons[index] ?? '', reason, serial);
        assert.equal(disk.free, reasons.length === 0);
        assert.deepEqual([disk.bus, disk.model, disk.sizeBytes], ['scsi', 'QEMU HARDDISK', `${sizeGiB * 2 ** 30}`]);
      }
    }
    const reasonsOf = (wanted: string) =>
      disks.find(({ name }) => name === wanted)?.reasons.join('; ') ?? 'it is not there';
    assert.match(reasonsOf('vda'), /^it is mounted at \/data.*; it holds a filesystem \(ext4\)$/);
    assert.match(reasonsOf('vdb'), /^it is of pool default.*; it holds a filesystem \(xfs\)$/);
    assert.match(reasonsOf('vdc'), /^nothing names it permanently: it has no serial number$/);
    assert.deepEqual(
      disks.filter(({ name }) => !/^(sd.|vd.)$/.test(name)),
      [],
      'loop devices and the like are no disks',
    );
    const { stdout } = await node.command('disks');
    assert.match(stdout, /^\/dev\/sd. +128Mi {2}scsi +(ssd|hdd) +QEMU HARDDISK +blank +yes +\/dev\/sd.$/m);
  });
});
