import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statfsSync } from 'node:fs';
import type { Scratch } from './scratch.ts';

/** An XFS of 1 GiB by itself, for a pool and for what others put beside it. It goes with the scratch directory. */
export class SmallDisk {
  readonly directory: string;
  readonly pool: string;
  readonly #image: string;
  readonly #foreign: string;

  constructor(scratch: Scratch, name: string) {
    this.directory = scratch.join(name);
    this.pool = `${this.directory}/pool`;
    this.#image = scratch.join(`${name}.img`);
    this.#foreign = `${this.directory}/foreign`;
    mkdirSync(this.directory);
    execFileSync('truncate', ['--size=1G', this.#image]);
    execFileSync('mkfs.xfs', ['-q', this.#image]);
    this.mount();
  }

  mount(): void {
    execFileSync('mount', ['-o', 'loop', this.#image, this.directory]);
  }

  unmount(): void {
    execFileSync('umount', [this.directory]);
  }

  remount(how: 'ro' | 'rw'): void {
    execFileSync('mount', ['-o', `remount,${how}`, this.directory]);
  }

  /** Somebody else takes so much of it that this share of the whole is left. */
  leaveFree(share: number): void {
    const { bavail, blocks, bsize } = statfsSync(this.directory);
    execFileSync('fallocate', [`--length=${Math.floor((bavail - blocks * share) * bsize)}`, this.#foreign]);
  }

  /** They take it back. */
  giveBack(): void {
    rmSync(this.#foreign);
  }

  /** Whoever writes to it waits, until it is thawed. */
  freeze(): void {
    execFileSync('fsfreeze', ['--freeze', this.directory]);
  }

  thaw(): void {
    execFileSync('fsfreeze', ['--unfreeze', this.directory]);
  }
}
