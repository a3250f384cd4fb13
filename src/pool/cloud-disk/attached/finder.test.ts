import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { LinkFinder, NvmeFinder } from './finder.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync('/var/tmp/holdfast-sysfs-');
});
afterEach(() => rmSync(root, { recursive: true }));

function disk(name: string, { dev, serial }: { readonly serial: string; readonly dev: string }): void {
  const directory = join(root, 'block', name, 'device');
  mkdirSync(directory, { recursive: true });
  // The controller fills it up with spaces.
  writeFileSync(join(directory, 'serial'), `${serial.padEnd(20)}\n`);
  writeFileSync(join(root, 'block', name, 'dev'), `${dev}\n`);
  writeFileSync(join(root, 'block', name, 'size'), '2097152\n');
}

describe('disks by serial number', () => {
  test('the whole disk with exactly that serial number is found', () => {
    disk('nvme0n1', { serial: 'vol0123456789abcdef0', dev: '259:0' });
    disk('nvme1n1', { serial: 'vol0123456789abcdef1', dev: '259:3' });
    disk('nvme2n1p1', { serial: 'vol0123456789abcdef1', dev: '259:4' });
    disk('sda', { serial: 'vol0123456789abcdef1', dev: '8:0' });
    const finder = new NvmeFinder(root);
    assert.deepEqual(finder.find('vol0123456789abcdef1'), [
      { name: 'nvme1n1', devicePath: '/dev/nvme1n1', device: { major: 259, minor: 3 }, sizeBytes: 1n << 30n },
    ]);
    assert.deepEqual(finder.find('vol0123456789abcdef'), []);
    assert.deepEqual(finder.find('vol0123456789abcdef00'), []);
  });

  test('two disks with one serial number are both found: their user refuses them', () => {
    disk('nvme0n1', { serial: 'vol1', dev: '259:0' });
    disk('nvme1n1', { serial: 'vol1', dev: '259:1' });
    assert.equal(new NvmeFinder(root).find('vol1').length, 2);
  });

  test('a machine without such disks has none', () => {
    assert.deepEqual(new NvmeFinder(root).find('vol1'), []);
    assert.deepEqual(new LinkFinder(root).find('vol1'), []);
  });
});
