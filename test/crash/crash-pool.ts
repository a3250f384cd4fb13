import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Scratch } from '../support/scratch.ts';

/**
 * A file with XFS in it, where snapshots share blocks; a directory on ext4, where they are copied, or on btrfs, where no journal
 * has all changes in their order; a whole disk, as far as a loop device is one. Or, of another kind, volumes that are
 * directories of an XFS.
 */
export type PoolLocation = 'file' | 'directory' | 'btrfs' | 'disk' | 'directories';

/** A pool of a node, named after its location. 16 GiB unless told otherwise, all of it sparse. */
export interface CrashPool {
  readonly name: PoolLocation;
  /** Where its files are, once a driver has opened it. */
  readonly root: string;
  /** What the driver locks: the pool's directory, or what its filesystem is in. */
  readonly location: string;
  /** As the driver is told. */
  readonly config: string;
}

/** Prepares what a pool is made from; it has its disk for itself, so that nobody else's files take room there. */
export function makePool(scratch: Scratch, name: PoolLocation, size = '16Gi'): CrashPool {
  switch (name) {
    case 'file': {
      const location = scratch.join('pool.img');
      return { name, location, root: scratch.join('data', 'pools', name), config: fileConfig(location, size) };
    }
    case 'disk': {
      const location = run('losetup', '--find', '--show', sparseFile(scratch.join('whole-disk.img')));
      return { name, location, root: scratch.join('data', 'pools', name), config: `device: ${location}` };
    }
    case 'directory': {
      const root = join(mounted(scratch, 'ext4', '-F'), 'pool');
      return { name, root, location: root, config: `directory: ${root}` };
    }
    case 'btrfs': {
      const root = join(mounted(scratch, 'btrfs'), 'pool');
      return { name, root, location: root, config: `directory: ${root}` };
    }
    case 'directories': {
      const root = join(mounted(scratch, 'xfs'), 'pool');
      return { name, root, location: root, config: `kind: directory, path: ${root}` };
    }
  }
}

/** How a driver is told of a pool in a file. */
export function fileConfig(path: string, size: string): string {
  return `file: ${path}, size: ${size}`;
}

/** @returns where a new filesystem is mounted */
function mounted(scratch: Scratch, fsType: string, ...options: string[]): string {
  const image = sparseFile(scratch.join(`${fsType}.img`));
  run(`mkfs.${fsType}`, '-q', ...options, image);
  const directory = scratch.join(fsType);
  mkdirSync(directory);
  run('mount', '-o', 'loop', image, directory);
  return directory;
}

function sparseFile(path: string): string {
  run('truncate', '--size=16G', path);
  return path;
}

function run(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8' }).trim();
}
