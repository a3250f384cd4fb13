import { execFileSync } from 'node:child_process';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Freezes } from '../../src/pool/freeze/freezes.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { mountedDirectory } from './left-behind.ts';
import type { Scratch } from './scratch.ts';

/**
 * A mounted filesystem that is frozen: whoever writes to it waits until it is thawed. On disposal it is thawed at the
 * latest, so that a test that fails leaves nobody waiting, neither its driver nor a sync(1) of others. Whoever may wait
 * has to be disposed of after it.
 */
export class Frozen implements Disposable {
  readonly #directory: string;
  #isFrozen = true;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** As a backup's hook would. */
  static byHook(directory: string): Frozen {
    execFileSync('fsfreeze', ['--freeze', directory]);
    return new Frozen(directory);
  }

  /** As a driver that is killed at that moment. */
  static async byDriver(
    scratch: Pick<Scratch, 'join'>,
    what: VolumeId | 'pool',
    directory: string,
    poolName = 'test',
  ): Promise<Frozen> {
    await new Freezes(scratch.join('data'), poolName).freeze(new DiskQueue('freeze', 1), what, directory);
    return new Frozen(directory);
  }

  thaw(): void {
    this.#isFrozen = false;
    execFileSync('fsfreeze', ['--unfreeze', this.#directory]);
  }

  /** Asserts that somebody else has thawed it. */
  assertThawed(): void {
    if (!this.#tryToThaw()) return;
    throw new Error(`${this.#directory} is still frozen`);
  }

  [Symbol.dispose](): void {
    if (this.#isFrozen) this.#tryToThaw();
  }

  /** @returns whether it was frozen */
  #tryToThaw(): boolean {
    this.#isFrozen = false;
    // Of a filesystem that is not mounted any more the directory belongs to another one.
    if (mountedDirectory(this.#directory) === undefined) return false;
    try {
      execFileSync('fsfreeze', ['--unfreeze', this.#directory], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  }
}
