import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Lane } from '../../kernel/lane.ts';
import { step } from '../../volume/step.ts';
import { copySuffix, type Layout } from './layout.ts';

/** A copy that nobody has gone on with for so long is of no use. */
const forgottenAfterMs = 7 * 24 * 3600_000;

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

  /** Queues everything that lies in the trash and all that is half made, but for copies that a retry may go on with. */
  async sweep(): Promise<void> {
    const { trash, drafts } = this.#layout;
    for (const name of await this.#lane.run(() => readdir(trash))) this.purge(join(trash, name));
    for (const name of await this.#lane.run(() => readdir(drafts))) {
      const path = join(drafts, name);
      if (!name.endsWith(copySuffix) || (await this.#isForgotten(path))) this.purge(path);
    }
  }

  async #isForgotten(path: string): Promise<boolean> {
    const { mtimeMs } = await this.#lane.run(() => stat(path));
    return Date.now() - mtimeMs > forgottenAfterMs;
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
