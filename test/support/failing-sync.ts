import { KernelError } from '../../src/kernel/call/errno.ts';
import { DirectorySync } from '../../src/kernel/file/file.ts';

/** Until it is disposed of, a directory's next syncs fail, as they do on a sick disk: what they follow has been done. */
export class FailingSync implements Disposable {
  readonly #working = DirectorySync.prototype.sync;
  #left: number;

  /** @param times how many fail, after that many have worked */
  constructor(directory: string, times = 1, worked = 0) {
    let passing = worked;
    this.#left = times;
    const working = this.#working;
    const fails = (path: string) => path === directory && passing-- <= 0 && this.#left-- > 0;
    DirectorySync.prototype.sync = function sync(queue, path) {
      if (fails(path)) return Promise.reject(new KernelError({ syscall: 'fsync', errno: 5, path }));
      return working.call(this, queue, path);
    };
  }

  /** Whether all that were to fail have failed. */
  get isUsedUp(): boolean {
    return this.#left <= 0;
  }

  [Symbol.dispose](): void {
    DirectorySync.prototype.sync = this.#working;
  }
}
