import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isErrno } from '../../src/kernel/call/errno.ts';

/** Takes all room of a filesystem into a file: whole blocks first, then the rest. */
export function fill(path: string): void {
  for (const size of ['1M', '4k', '512']) {
    spawnSync('dd', ['if=/dev/zero', `of=${path}`, `bs=${size}`, 'oflag=append', 'conv=notrunc,fsync'], {
      stdio: 'ignore',
    });
  }
}

/** A directory that has room for another name or two may take them although the disk is full. */
export function useUpDirectories(directory: string): void {
  mkdirSync(directory, { recursive: true });
  try {
    for (let index = 0; index < 100_000; index++) writeFileSync(join(directory, `filler-${index}`), 'x');
  } catch (error) {
    if (!isErrno(error, 'ENOSPC')) throw error;
  }
}
