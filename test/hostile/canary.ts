import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mountsBelow } from '../crash/kernel-sight.ts';

/**
 * A tree that is none of the driver's business. Whatever it does to it shows: content, owners, rights, links, the
 * times of the last change of content and of anything else, and mounts.
 */
export class Canary {
  readonly path: string;
  #before: ReadonlyMap<string, string>;

  private constructor(path: string) {
    this.path = path;
    this.#before = sight(path);
  }

  /** Makes a tree of all kinds of files. */
  static plant(path: string): Canary {
    mkdirSync(join(path, 'empty'), { recursive: true });
    mkdirSync(join(path, 'full', 'deep'), { recursive: true });
    writeFileSync(join(path, 'file'), 'a canary\n');
    writeFileSync(join(path, 'nothing'), '');
    writeFileSync(join(path, 'full', 'deep', 'volume.json'), '{}');
    symlinkSync('full', join(path, 'link'));
    // What the tests call a target, a staging directory, and its parent.
    for (const name of ['volume', 'globalmount', 'swapped/globalmount'])
      mkdirSync(join(path, name), { recursive: true });
    return new Canary(path);
  }

  /** Watches what is there already. */
  static watch(path: string): Canary {
    return new Canary(path);
  }

  /** After the test itself has changed the tree. */
  remember(): void {
    this.#before = sight(this.path);
  }

  /** Asserts that nobody has touched it. */
  check(): void {
    assert.deepEqual(
      Object.fromEntries(sight(this.path)),
      Object.fromEntries(this.#before),
      `${this.path} was changed`,
    );
    assert.deepEqual(mountsBelow(this.path), [], `something was mounted in ${this.path}`);
  }
}

function sight(root: string): Map<string, string> {
  return new Map(walk(root).map((path) => [path, describe(path)]));
}

/** The directory and all in it; what a symbolic link leads to is not in it. */
function walk(path: string): string[] {
  const entries = readdirSync(path, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  return [path, ...entries.flatMap((entry) => (entry.isDirectory() ? walk : named)(join(path, entry.name)))];
}

function named(path: string): string[] {
  return [path];
}

function describe(path: string): string {
  const status = lstatSync(path, { bigint: true });
  const { ctimeNs, dev, gid, ino, mode, mtimeNs, nlink, size, uid } = status;
  const content = status.isFile()
    ? createHash('sha256').update(readFileSync(path)).digest('hex')
    : status.isSymbolicLink()
      ? readlinkSync(path)
      : '';
  return [dev, ino, mode.toString(8), uid, gid, nlink, size, mtimeNs, ctimeNs, content].join(' ');
}
