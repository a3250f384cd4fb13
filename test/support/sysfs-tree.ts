import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A directory with files and links as they are below /sys, until it is disposed of. */
export class SysfsTree implements Disposable {
  readonly root = mkdtempSync(join(tmpdir(), 'sysfs-'));

  /** @param files by their paths in it */
  constructor(files: Readonly<Record<string, string>>) {
    for (const [path, text] of Object.entries(files)) writeFileSync(this.#make(path), text);
  }

  /** Makes a link. Both paths are in it. */
  link(path: string, to: string): void {
    symlinkSync(join(this.root, to), this.#make(path));
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true });
  }

  #make(path: string): string {
    const whole = join(this.root, path);
    mkdirSync(dirname(whole), { recursive: true });
    return whole;
  }
}
