import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { killChildren } from './child.ts';
import { loopsOver, mountsBelow, undoMounts } from './left-behind.ts';

/**
 * A directory of a test's own, and everything the test may leave in it: on disposal all mounts below it are undone,
 * loop devices over files in it detached, and the directory removed; so a failed test leaves the machine as it was.
 */
export class Scratch implements Disposable {
  static readonly #live = new Set<Scratch>();
  readonly path: string;

  static {
    // Whoever ends a test run leaves the machine as it was, too.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, () => {
        killChildren();
        for (const scratch of Scratch.#live) scratch[Symbol.dispose]();
        process.exit(1);
      });
    }
  }

  constructor(label: string) {
    this.path = mkdtempSync(`/var/tmp/holdfast-${label}-`);
    Scratch.#live.add(this);
  }

  join(...parts: string[]): string {
    return join(this.path, ...parts);
  }

  /** Mounts at or below the directory, the newest first. */
  mounts(): string[] {
    return mountsBelow(this.path);
  }

  /** Loop devices over files in the directory, deleted ones included. */
  loops(): string[] {
    return loopsOver(this.path);
  }

  [Symbol.dispose](): void {
    undoMounts(this.path);
    rmSync(this.path, { recursive: true, force: true });
    Scratch.#live.delete(this);
  }
}
