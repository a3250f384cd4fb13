import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Disk } from '../../src/kernel/block/disks.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { namedDevices } from '../../src/pool/location/match/named-devices.ts';
import { Scratch } from '../support/scratch.ts';

const disk = (minor: number, partition = minor + 1): Disk => ({
  ...{ name: 'sdx', devicePath: '/dev/sdx', device: { major: 240, minor }, sizeBytes: 1n << 30n, bus: 'scsi' },
  ...{ isRotational: true, isRemovable: false, isReadonly: false, isZoned: false, model: undefined, serial: undefined },
  ...{
    identity: 'x',
    holders: [],
    partitions: [{ name: 'sdx1', device: { major: 240, minor: partition }, holders: [] }],
  },
});

test('a disk belongs to the pool that names it or a part of it; what is named and not there could be any blank one', async () => {
  using scratch = new Scratch('named');
  mkdirSync(scratch.join('pools'));
  for (const minor of [16, 33]) execFileSync('mknod', [scratch.join(`${minor}`), 'b', '240', `${minor}`]);
  const named = [
    { poolName: 'whole', path: scratch.join('16') },
    { poolName: 'part', path: scratch.join('33') },
    { poolName: 'known', path: scratch.join('pulled') },
    { poolName: 'new', path: scratch.join('late') },
  ];
  writeFileSync(scratch.join('pools/known.id'), '0b7e6a52-2f4f-4c0e-8a3d-9f1c5d2e7a11\n');
  const found = await namedDevices(new DiskQueue('test', 1), scratch.path, named);
  assert.deepEqual(found.ownersOf(disk(16)), ['pool whole']);
  assert.deepEqual(found.ownersOf(disk(32)), ['pool part']);
  assert.deepEqual(found.ownersOf(disk(48)), []);
  assert.deepEqual(found.awaited, [{ poolName: 'new', path: scratch.join('late') }]);
  assert.deepEqual([...found.poolsById], [['0b7e6a52-2f4f-4c0e-8a3d-9f1c5d2e7a11', 'known']]);
});
