import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Disk } from '../../../kernel/block/disks.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { parseMountTable } from '../../../kernel/mount/mount-table.ts';
import type { ShowsDevice } from '../../../kernel/mount/mounts-of-device.ts';
import { usersOf } from './disk-survey.ts';

const disk: Disk = {
  ...{ name: 'sdb', devicePath: '/dev/sdb', device: { major: 8, minor: 16 }, sizeBytes: 1n << 40n, bus: 'scsi' },
  ...{ isRotational: true, isRemovable: false, isReadonly: false, isZoned: false, model: 'M', serial: 'S' },
  ...{ identity: 'wwid naa.5000', holders: ['md0'] },
  partitions: [
    { name: 'sdb1', device: { major: 8, minor: 17 }, holders: ['dm-0'] },
    { name: 'sdb2', device: { major: 259, minor: 3 }, holders: ['dm-0'] },
  ],
};

const mounts = parseMountTable(
  [
    '20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw',
    '21 20 8:17 / /data rw shared:2 - xfs /dev/sdb1 rw',
    '22 20 8:17 /sub /bound rw shared:2 - xfs /dev/sdb1 rw',
    // btrfs has separate device numbers.
    '23 20 0:50 / /pool rw - btrfs /dev/sdb2 rw',
    '24 20 0:51 / /other rw - btrfs /dev/sdc rw',
    // A raw block volume.
    '25 20 0:5 /sdb /var/lib/kubelet/block rw - devtmpfs udev rw',
    // A file that has the name of the disk by chance.
    '26 20 8:1 /srv/sdb /srv/file rw - ext4 /dev/sda1 rw',
    '27 20 8:170 / /no rw - ext4 /dev/sdk10 rw',
  ].join('\n'),
);

/** The btrfs with the number 0:50 is on sdb2. */
const shows: ShowsDevice = (mount, device) =>
  sameDevice(mount.device, device) || (mount.device.major === 0 && mount.device.minor === 50 && device.major === 259);

test('who uses a disk is known by its numbers, by those of its partitions, and by nodes that are mounted', () => {
  const swaps = ['/dev/sdb1', '/dev/sda3', '/swapfile'];
  const loops = new Map([
    ['/dev/sdb', ['loop3']],
    ['/dev/sdc', ['loop4']],
  ]);
  const found = usersOf(disk, { mounts, shows, swaps, mappedNames: new Map([['dm-0', 'vg0-data']]), loops });
  assert.deepEqual(found, {
    mountedAt: ['/data', '/bound', '/pool', '/var/lib/kubelet/block'],
    swaps: ['/dev/sdb1'],
    holders: ['md0', 'dm-0 (vg0-data)', 'loop3'],
  });
});

test('a disk that others are seen to use is not used for that', () => {
  const other = {
    ...disk,
    name: 'sdx',
    devicePath: '/dev/sdx',
    device: { major: 65, minor: 112 },
    holders: [],
    partitions: [],
  };
  const found = usersOf(other, { mounts, shows, swaps: ['/dev/sdb1'], mappedNames: new Map(), loops: new Map() });
  assert.deepEqual(found, { mountedAt: [], swaps: [], holders: [] });
});
