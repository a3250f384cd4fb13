import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Lane } from '../../kernel/lane.ts';
import { step } from '../../volume/step.ts';
import type { Layout } from './layout.ts';

/**
 * Unlinks what was removed, one volume after another and behind the answer: unlinking a large image takes long, and
 * nobody waits for it. What a stop or a crash leaves is found by the next start.
 */
export class Trash {
  readonly #lane: Lane;
  readonly #layout: Layout;
  readonly #onError: (path: string, error: unknown) => void;
  #last: Promise<void> = Promise.resolve();

  constructor(lane: Lane, layout: Layout, onError: (path: string, error: unknown) => void) {
    this.#lane = lane;
    this.#layout = layout;
    this.#onError = onError;
  }

  /** Queues everything that lies in the trash and all half-made volumes. */
  async sweep(): Promise<void> {
    for (const directory of [this.#layout.trash, this.#layout.drafts]) {
      for (const name of await this.#lane.run(() => readdir(directory))) this.purge(join(directory, name));
    }
  }

  /** Queues a directory of the trash. Never throws: what cannot be unlinked now is tried again at the next start. */
  purge(path: string): void {
    this.#last = this.#last.then(async () => {
      try {
        await step('remove/purge', () => this.#lane.run(() => rm(path, { recursive: true, force: true })));
      } catch (error) {
        this.#onError(path, error);
      }
    });
  }

  /** Resolves when everything queued so far is gone. */
  async drained(): Promise<void> {
    await this.#last;
  }
}
