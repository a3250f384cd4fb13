import assert from 'node:assert/strict';
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Pool, VolumeSpec } from '../../../src/pool/pool.ts';
import { volumeIdFor } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { lvm } from '../../support/lvm-pool.ts';

/*
 * What the programs share that run in the virtual machine with three small disks on scsi, which they pull.
 */

export const [, , ...disks] = process.argv;
export const mebibyte = 1n << 20n;
export const extentBytes = 4n * mebibyte;
/** For disks that have to write all the zeros, on a busy machine. */
export const patienceMs = 300_000;

export const idOf = (name: string) => volumeIdFor('node', 'test', name);
export const spec = (name: string, changes: Partial<VolumeSpec> = {}) =>
  volumeSpec(name, { content: { type: 'block' }, sizeBytes: 24n * mebibyte, ...changes });

export async function attach(pool: Pool, name: string) {
  const attachment = await attachDevice(pool, idOf(name), { persistent: true });
  await attachment.release();
  return attachment;
}

/** A sentence that no other volume has, all over the device. */
export async function fill(pool: Pool, name: string): Promise<void> {
  const attachment = await attach(pool, name);
  writeAll(attachment.devicePath, name);
  await pool.detach(attachment);
}

export function writeAll(devicePath: string, name: string): void {
  const device = openSync(devicePath, 'r+');
  const block = Buffer.alloc(Number(mebibyte), pattern(name));
  for (let at = 0; at < filledMebibytes; at++) writeSync(device, block, 0, block.length, at * block.length);
  fsyncSync(device);
  closeSync(device);
}

const filledMebibytes = 8;
export const filledBytes = filledMebibytes * 2 ** 20;
export const pattern = (name: string) => `what ${name} has is nobody else's. `.padEnd(64, '.');

/** On which disks something of it can be read, past the page cache. */
export function disksWith(name: string): string[] {
  writeFileSync('/proc/sys/vm/drop_caches', '3');
  return presentDisks().filter((path) => readFileSync(path).includes(pattern(name)));
}

export const table = (volumeGroup: string, fields: string) =>
  lvm('lvs', '--noheadings', '--all', '-o', fields, '--separator', ' ', volumeGroup)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.includes('vol-'));

/** LVM takes away what is behind the answer. */
export async function onlyPoolIsLeft(volumeGroup: string): Promise<void> {
  await eventually(() => assert.deepEqual(table(volumeGroup, 'lv_name,lv_tags'), []), patienceMs);
}

export async function isInStep(pool: Pool, name: string): Promise<void> {
  await eventually(async () => {
    const { abnormal, message } = await pool.condition(idOf(name));
    assert.deepEqual({ abnormal, message }, { abnormal: false, message: 'The volume is healthy.' });
  }, patienceMs);
}

export async function isAbnormal(pool: Pool, name: string, expected: RegExp): Promise<void> {
  await eventually(async () => {
    const { abnormal, message } = await pool.condition(idOf(name));
    assert.equal(abnormal, true, message);
    assert.match(message, expected);
  }, patienceMs);
}

export function lvNameOf(volumeGroup: string, name: string): string {
  return table(volumeGroup, 'lv_name').find((row) => row.startsWith(idOf(name))) ?? '';
}

/** Of an active one. */
export function deviceOf(volumeGroup: string, name: string): string {
  const path = `${volumeGroup}/${lvNameOf(volumeGroup, name)}`;
  return `/dev/dm-${lvm('lvs', '--noheadings', '-o', 'lv_kernel_minor', path).trim()}`;
}

/** Where the pool's own logical volume lies, and so its lock. */
export function poolDisk(volumeGroup: string): string {
  return lvm('lvs', '--noheadings', '-o', 'devices', `${volumeGroup}/holdfast-pool`).trim().replace(/\(.*/, '');
}

/** One that was pulled while it was in use comes back under another name. */
export function presentDisks(): string[] {
  const names = readdirSync('/sys/class/block').filter((name) => /^sd[a-z]$/.test(name));
  return names.map((name) => `/dev/${name}`).toSorted();
}

/** @returns where it is put back */
export async function pull(path: string): Promise<string> {
  const device = `/sys/class/block/${path.slice(5)}/device`;
  const [host = ''] = readdirSync(`${device}/scsi_disk`)[0]?.split(':') ?? [];
  writeFileSync(`${device}/delete`, '1');
  await eventually(() => assert.ok(!existsSync(path)), patienceMs);
  return host;
}

export async function putBack(host: string, volumeGroup: string): Promise<void> {
  writeFileSync(`/sys/class/scsi_host/host${host}/scan`, '- - -');
  await eventually(() => {
    assert.equal(presentDisks().length, disks.length);
    assert.doesNotMatch(lvm('pvs', '--select', `vg_name=${volumeGroup}`), /unknown/);
  }, patienceMs);
}
