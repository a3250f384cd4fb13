import {
  closeSync,
  constants,
  cpSync,
  type Dirent,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { isErrno } from '../../../src/kernel/call/errno.ts';
import { noteName } from '../../../src/pool/records/incoming-draft.ts';

const mebibyte = 1 << 20;
/** The size of the volume of a history. */
export const volumeBytes = 4 * mebibyte;
/** Where each version of the volume is written: a copy that has it in all places is whole. */
export const stampPlaces = [0, volumeBytes / 2, volumeBytes - 4096];
const text = 'version ';
const sharing = { recursive: true, mode: constants.COPYFILE_FICLONE };

/** The bytes of a version, for each of its places. */
export function stampOf(version: number): Buffer {
  const bytes = Buffer.alloc(4096);
  bytes.write(`${text}${version}\n`);
  return bytes;
}

function versionAt(file: number, place: number): number | undefined {
  const bytes = Buffer.alloc(32);
  readSync(file, bytes, 0, bytes.length, place);
  const found = /^version (?<version>\d+)\n/.exec(bytes.toString('latin1'))?.groups?.['version'];
  return found === undefined ? undefined : Number(found);
}

/** The version of the bytes at a path; undefined: not all of it is there. */
export function versionIn(path: string): number | undefined {
  const file = openSync(path, 'r');
  try {
    const [first, ...others] = stampPlaces.map((place) => versionAt(file, place));
    return others.every((each) => each === first) ? first : undefined;
  } finally {
    closeSync(file);
  }
}

/** A whole copy of the volume or of a snapshot on a disk, seen without the driver. */
export interface SeenCopy {
  readonly node: string;
  readonly pool: string;
  readonly path: string;
  readonly version: number;
}

/** The disks of a history, as directories: of each pool of each node. They can be away, go back in time, or be lost. */
export class Disks {
  readonly #root: string;
  #saved = 0;

  constructor(root: string) {
    this.#root = root;
  }

  pathOf(node: string, pool: string): string {
    return join(this.#root, pool === 'data' ? node : `${node}-${pool}`);
  }

  /** The whole copies of a volume or snapshot on a disk, in drafts and in the trash, too. */
  copiesOn(node: string, pool: string, id: string): SeenCopy[] {
    return copiesBelow(this.pathOf(node, pool), id).map((copy) => ({ ...copy, node, pool }));
  }

  exists(node: string, pool: string): boolean {
    return existsSync(this.pathOf(node, pool));
  }

  /** Keeps the disk as it is now. Its driver does not run. @returns the name of that */
  save(node: string, pool: string): string {
    const name = join(this.#root, `saved-${++this.#saved}`);
    cpSync(this.pathOf(node, pool), name, sharing);
    return name;
  }

  /** The disk is again as it was. */
  bringBack(node: string, pool: string, saved: string): void {
    rmSync(this.pathOf(node, pool), { recursive: true, force: true });
    cpSync(saved, this.pathOf(node, pool), sharing);
  }

  remove(node: string, pool: string): void {
    rmSync(this.pathOf(node, pool), { recursive: true, force: true });
  }

  /** The directory that the driver of a node has for itself. */
  removeOwn(node: string): void {
    rmSync(join(this.#root, `data-${node}`), { recursive: true, force: true });
  }

  /** The pool opens with another disk. */
  forgetId(node: string, pool: string): void {
    rmSync(join(this.#root, `data-${node}`, 'pools', `${pool}.id`), { force: true });
  }

  /** Takes the disk out. */
  takeOut(node: string, pool: string): void {
    renameSync(this.pathOf(node, pool), `${this.pathOf(node, pool)}.out`);
  }

  isOut(node: string, pool: string): boolean {
    return existsSync(`${this.pathOf(node, pool)}.out`);
  }

  putIn(node: string, pool: string): void {
    rmSync(this.pathOf(node, pool), { recursive: true, force: true });
    renameSync(`${this.pathOf(node, pool)}.out`, this.pathOf(node, pool));
  }

  copiesOut(node: string, pool: string, id: string): SeenCopy[] {
    return copiesBelow(`${this.pathOf(node, pool)}.out`, id).map((copy) => ({ ...copy, node, pool }));
  }
}

/** True of a copy on its way of which not all was read under one fence: it never becomes the volume, whatever bytes it has. */
function isPart(directory: string): boolean {
  const note = join(directory, noteName);
  return existsSync(note) && !readFileSync(note, 'utf8').includes('"readUnder"');
}

/** A directory in it may go while they are read: then they are read again. */
function entriesBelow(directory: string): Dirent[] {
  for (;;) {
    try {
      return readdirSync(directory, { recursive: true, withFileTypes: true });
    } catch (error) {
      if (!isErrno(error, 'ENOENT') || !existsSync(directory)) throw error;
    }
  }
}

function copiesBelow(directory: string, id: string): Pick<SeenCopy, 'path' | 'version'>[] {
  if (!existsSync(directory)) return [];
  const found: Pick<SeenCopy, 'path' | 'version'>[] = [];
  for (const entry of entriesBelow(directory)) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || !path.includes(`/${id}`)) continue;
    try {
      if (statSync(path).size !== volumeBytes) continue;
      const version = versionIn(path);
      if (version !== undefined && !isPart(entry.parentPath)) found.push({ path, version });
    } catch {
      // It has just gone.
    }
  }
  return found;
}
