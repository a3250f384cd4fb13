import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename } from 'node:path';
import { deviceNumber } from '../../src/kernel/device.ts';
import { eventually } from './eventually.ts';
import type { Scratch } from './scratch.ts';

const mebibyte = 1 << 20;

/** A blank sparse file, or the one that is there with another size. */
export function sparseFile(path: string, sizeMebibytes: number): string {
  if (!existsSync(path)) writeFileSync(path, '');
  truncateSync(path, sizeMebibytes * mebibyte);
  return path;
}

/** Shows a file of the scratch directory as a disk until the directory goes. @returns its device node */
export function attachDisk(image: string, ...options: readonly string[]): string {
  return execFileSync('losetup', ['--find', '--show', ...options, image], { encoding: 'utf8' }).trim();
}

/** Requests to flush the cache of a disk so far (Documentation/admin-guide/iostats.rst, field 16). */
export function flushesOf(disk: string): number {
  const fields = readFileSync(`/sys/block/${basename(disk)}/stat`, 'utf8')
    .trim()
    .split(/\s+/);
  return Number(fields[15]);
}

/** A node of our own for a disk, under a name that can be given to another disk later, as the kernel does. */
export function nameDisk(scratch: Scratch, name: string, device: string): string {
  const path = scratch.join(name);
  rmSync(path, { force: true });
  const { major, minor } = deviceNumber(statSync(device, { bigint: true }).rdev);
  execFileSync('mknod', [path, 'b', `${major}`, `${minor}`]);
  return path;
}

/**
 * Makes the filesystem read-only. It waits for loop devices of its files that are on their way out: the kernel keeps
 * those, and with them the filesystem writable, while anybody on the machine looks at one.
 */
export function remountReadOnly(directory: string): Promise<void> {
  return eventually(() => void execFileSync('mount', ['-o', 'remount,ro', directory]));
}

/** What a sparse file holds, to see that nothing has changed it. */
export function digestOf(path: string): string {
  const hash = createHash('sha256').update(`${statSync(path).size}`);
  for (const { at, bytes } of pieces(path)) hash.update(`${at}`).update(bytes);
  return hash.digest('hex');
}

/** The parts of a file that are not zeros throughout. The bytes hold until the next part is asked for. */
export function* pieces(path: string): Generator<{ readonly at: number; readonly bytes: Buffer }> {
  const [bytes, zeros] = [Buffer.alloc(mebibyte), Buffer.alloc(mebibyte)];
  const file = openSync(path, 'r');
  try {
    for (let at = 0; readSync(file, bytes, 0, mebibyte, at) > 0; at += mebibyte) {
      if (!bytes.equals(zeros)) yield { at, bytes };
    }
  } finally {
    closeSync(file);
  }
}

/** Puts a shell script before a program of the machine, for programs that are started from now on. */
export function replaceProgram(scratch: Scratch, program: string, script: string): Disposable {
  const real = execFileSync('sh', ['-c', `command -v ${basename(program)}`], { encoding: 'utf8' }).trim();
  const directory = scratch.join('bin');
  const before = process.env['PATH'];
  execFileSync('mkdir', ['--parents', directory]);
  writeFileSync(`${directory}/${program}`, `#!/bin/sh\nreal=${real}\n${script}\n`, { mode: 0o755 });
  process.env['PATH'] = `${directory}:${before}`;
  return {
    [Symbol.dispose]() {
      process.env['PATH'] = before;
    },
  };
}

/** The UUID of the filesystem in an image or on a disk. */
export function uuidOf(path: string): string {
  return execFileSync('blkid', ['-p', '-o', 'value', '-s', 'UUID', path], { encoding: 'utf8' }).trim();
}
