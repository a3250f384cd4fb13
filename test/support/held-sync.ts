import { DirectorySync } from '../../src/kernel/file/file.ts';

/** Until it is disposed of, each sync of this directory waits: the operation stands still there. */
export class HeldSync implements Disposable {
  readonly #working = DirectorySync.prototype.sync;
  /** Resolves when an operation waits. */
  readonly reached: Promise<void>;
  #release: () => void = () => undefined;

  constructor(directory: string) {
    const working = this.#working;
    const released = new Promise<void>((resolve) => {
      this.#release = resolve;
    });
    let reach: () => void = () => undefined;
    this.reached = new Promise((resolve) => {
      reach = resolve;
    });
    DirectorySync.prototype.sync = async function sync(queue, path) {
      if (path === directory) {
        reach();
        await released;
      }
      return working.call(this, queue, path);
    };
  }

  [Symbol.dispose](): void {
    DirectorySync.prototype.sync = this.#working;
    this.#release();
  }
}
