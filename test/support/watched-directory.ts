import { watch } from 'node:fs';

/** Until it is disposed of, hears the name of whatever comes or goes in a directory. */
export class WatchedDirectory implements Disposable {
  readonly names: string[] = [];
  readonly #watcher;

  constructor(path: string) {
    this.#watcher = watch(path, (_, name) => this.names.push(`${name}`));
  }

  [Symbol.dispose](): void {
    this.#watcher.close();
  }
}
