import { mkdir, open, readdir, readFile, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { checksumOf, contentOf } from './content.ts';

/*
 * What a test has done in the virtual machine, by the agent: functions of the host that run there. One program that
 * is already running does it in milliseconds; starting a shell there takes a tenth of a second.
 */

export interface Written {
  readonly path: string;
  readonly sizeBytes: number;
  /** What is written: see content.ts. */
  readonly seed: number;
  /** Where a block volume is written. */
  readonly offsetBytes?: number;
  /** Not told to the disk: may be lost. */
  readonly unsynced?: boolean;
  /** Put in the place of what is there, by a rename. */
  readonly replaces?: boolean;
}

/** Writes, and does not return before it is durable. */
async function write({ offsetBytes, path, replaces, seed, sizeBytes, unsynced }: Written): Promise<void> {
  const data = contentOf(seed, sizeBytes);
  const draft = replaces === true ? `${path}.new` : path;
  {
    // A device must not be opened with O_CREAT or O_TRUNC.
    await using file = await open(draft, offsetBytes === undefined ? 'w' : 'r+');
    await file.write(data, 0, sizeBytes, offsetBytes ?? 0);
    if (unsynced !== true) await file.sync();
  }
  if (replaces === true) await rename(draft, path);
  if (offsetBytes === undefined && unsynced !== true) {
    await using directory = await open(dirname(path), 'r');
    await directory.sync();
  }
}

export interface Stretch {
  readonly path: string;
  readonly offsetBytes?: number;
  readonly sizeBytes: number;
}

/** The checksum of each stretch; null where there is no such file or it is shorter. */
async function checksums(stretches: readonly Stretch[]): Promise<(string | null)[]> {
  const found: (string | null)[] = [];
  for (const stretch of stretches) found.push(await checksum(stretch));
  return found;
}

async function checksum({ path, offsetBytes, sizeBytes }: Stretch): Promise<string | null> {
  const data = Buffer.alloc(sizeBytes);
  try {
    await using file = await open(path, 'r');
    const { bytesRead } = await file.read(data, 0, sizeBytes, offsetBytes ?? 0);
    return bytesRead < sizeBytes ? null : checksumOf(data);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

/** What is in each directory, in order; nothing for one that is not there. */
async function list(directories: readonly string[]): Promise<string[][]> {
  return Promise.all(directories.map(async (path) => (await readdir(path).catch(() => [])).sort()));
}

/** The text of each `name` in the directories in `parent`. */
async function readAll({ name, parent }: { readonly parent: string; readonly name: string }): Promise<string[]> {
  return Promise.all((await readdir(parent)).sort().map((child) => readFile(join(parent, child, name), 'utf8')));
}

async function makeDirectories(paths: readonly string[]): Promise<void> {
  for (const path of paths) await mkdir(path, { recursive: true });
}

async function sizeBytes(path: string): Promise<number> {
  return (await stat(path)).size;
}

export const tasks = { checksums, list, makeDirectories, readAll, sizeBytes, write };
export type Tasks = typeof tasks;
