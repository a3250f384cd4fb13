import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';

/**
 * A directory of a test's own, and everything the test may leave in it: on disposal all mounts below it are undone,
 * loop devices over files in it detached, and the directory removed; so a failed test leaves the machine as it was.
 */
export class Scratch implements Disposable {
  static readonly #live = new Set<Scratch>();
  readonly path: string;

  static {
    // Whoever ends a test run leaves the machine as it was, too.
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
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
    return readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .map((line) => decodeOctal(line.split(' ')[4] ?? ''))
      .filter((target) => target === this.path || target.startsWith(`${this.path}/`))
      .reverse();
  }

  /** Loop devices over files in the directory, deleted ones included. */
  loops(): string[] {
    return readdirSync('/sys/block')
      .filter((name) => name.startsWith('loop'))
      .filter((name) => backingFile(name)?.startsWith(`${this.path}/`))
      .map((name) => `/dev/${name}`);
  }

  [Symbol.dispose](): void {
    // Found before anything is unmounted: what lies on a mount that is gone is shown with another path.
    const loops = this.loops();
    for (const target of this.mounts()) {
      // Left frozen it would stay so, and whoever writes to it with it. It says so if it is not.
      spawnSync('fsfreeze', ['--unfreeze', target]);
      execFileSync('umount', ['--lazy', target]);
    }
    // A device with autoclear goes by itself, and a moment later its number may be somebody else's.
    const lasting = loops.filter((device) => !isAutoclear(basename(device)));
    for (const device of lasting) spawnSync('losetup', ['--detach', device]);
    rmSync(this.path, { recursive: true, force: true });
    Scratch.#live.delete(this);
  }
}

function backingFile(loop: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${loop}/loop/backing_file`, 'utf8').trim();
  } catch {
    return undefined;
  }
}

function isAutoclear(loop: string): boolean {
  try {
    return readFileSync(`/sys/block/${loop}/loop/autoclear`, 'utf8').trim() === '1';
  } catch {
    return true;
  }
}

/** mountinfo writes spaces and the like as octal escapes. */
function decodeOctal(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
