import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isSameDisk } from './disk-identity.ts';

test('two disks are one if they have the name and the size of one', () => {
  const disk = { name: 'wwid eui.0011', sizeBytes: 1n << 40n };
  assert.ok(isSameDisk(disk, { ...disk }));
  assert.ok(!isSameDisk(disk, { ...disk, name: 'wwid eui.0012' }));
  assert.ok(!isSameDisk(disk, { ...disk, sizeBytes: 2n << 40n }));
  assert.ok(!isSameDisk(disk, { ...disk, name: 'boot a diskseq 3' }));
});

test('a disk without a name of its own is known by its size after a reboot, and by its number until then', () => {
  const disk = { name: 'boot a diskseq 3', sizeBytes: 1n << 40n };
  assert.ok(isSameDisk(disk, { ...disk }));
  assert.ok(!isSameDisk(disk, { ...disk, name: 'boot a diskseq 4' }));
  assert.ok(isSameDisk(disk, { ...disk, name: 'boot b diskseq 4' }));
  assert.ok(!isSameDisk(disk, { name: 'boot b diskseq 3', sizeBytes: 1n << 30n }));
});
