import { execFileSync } from 'node:child_process';
import { mountedDirectory } from './left-behind.ts';

/**
 * A mounted filesystem that is frozen: whoever writes to it waits until it is thawed. On disposal it is thawed at the
 * latest, so that a test that fails leaves nobody waiting, neither its driver nor a sync(1) of others. Whoever may wait
 * has to be disposed of after it.
 */
export class Frozen implements Disposable {
  readonly #directory: string;
  #isFrozen = true;

  constructor(directory: string) {
    this.#directory = directory;
    execFileSync('fsfreeze', ['--freeze', directory]);
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
