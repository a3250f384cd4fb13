import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { spawnWithUs } from './child.ts';
import { eventually } from './eventually.ts';
import type { Scratch } from './scratch.ts';

/**
 * A filesystem on a loop device that hangs for readers too, in calls that no signal ends, until it is mended. The file
 * behind the device lies on a filesystem that is frozen: the loop device's worker waits in a write to it, and every
 * request behind that waits too.
 */
export class HangingDisk {
  readonly directory: string;
  readonly #host: string;
  readonly #image: string;

  constructor(scratch: Scratch) {
    this.#host = scratch.join('hanging-host');
    this.#image = `${this.#host}/disk.img`;
    this.directory = scratch.join('hanging-disk');
    for (const directory of [this.#host, this.directory]) mkdirSync(directory);
    makeFilesystem(scratch.join('hanging-host.img'), '3G');
    execFileSync('mount', ['-o', 'loop', scratch.join('hanging-host.img'), this.#host]);
    makeFilesystem(this.#image, '2G');
    this.#mount();
  }

  /** From now on whatever the kernel has not in memory hangs, and it has nothing in memory. */
  async hang(): Promise<void> {
    execFileSync('umount', [this.directory]);
    this.#mount();
    execFileSync('fsfreeze', ['--freeze', this.#host]);
    const write = ['dd', 'if=/dev/zero', `of=${this.directory}/stuck`, 'bs=4k', 'count=1', 'oflag=direct'];
    const writer = spawnWithUs(write, { stdio: 'ignore' });
    await eventually(() => assert.match(readFileSync(`/proc/${writer.pid}/stat`, 'utf8'), /^\d+ \(dd\) D /));
  }

  mend(): void {
    execFileSync('fsfreeze', ['--unfreeze', this.#host]);
  }

  #mount(): void {
    execFileSync('mount', ['-o', 'loop', this.#image, this.directory]);
  }
}

function makeFilesystem(image: string, size: string): void {
  execFileSync('truncate', [`--size=${size}`, image]);
  execFileSync('mkfs.xfs', ['-q', image]);
}
