import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import type { DiskMatch } from '../../src/pool/kinds/disk/match.ts';
import { type DiskPoolOptions, openDiskBackend } from '../../src/pool/kinds/disk/open.ts';
import { openOver } from '../../src/pool/open.ts';
import type { Scratch } from './scratch.ts';
import { type TestPoolOptions, testSettings } from './test-pool.ts';

export type DiskTestOptions = TestPoolOptions<DiskPoolOptions>;

/** A loop device over a sparse file of the scratch directory: the same one each time, as far as it is still there. */
export function loopDisk(
  scratch: Scratch,
  name: string,
  sizeMebibytes: number,
  sectorBytes = 512,
  devicePath?: string,
): string {
  const file = fileOf(scratch, name);
  if (!existsSync(file)) {
    writeFileSync(file, '');
    truncateSync(file, sizeMebibytes * 2 ** 20);
  }
  return loopOf(file) ?? attach(file, sectorBytes, devicePath);
}

/** What is behind a disk of the scratch directory. */
export function fileOf(scratch: Scratch, name: string): string {
  return join(memoryOf(scratch), name);
}

/** A label is flushed at each step; nothing here depends on how long that takes. */
function memoryOf(scratch: Scratch): string {
  const directory = scratch.join('memory');
  if (existsSync(directory)) return directory;
  mkdirSync(directory);
  execFileSync('mount', ['-t', 'tmpfs', 'disks', directory]);
  return directory;
}

function loopOf(file: string): string | undefined {
  const found = execFileSync('losetup', ['--noheadings', '--output', 'NAME', '--associated', file], {
    encoding: 'utf8',
  });
  return found.trim() || undefined;
}

/**
 * The kernel looks for partitions, as on a disk; else it would keep those we make for whoever has the number next.
 * @param devicePath a device that is free, if it has to be that one
 */
function attach(file: string, sectorBytes: number, devicePath?: string): string {
  const where = devicePath === undefined ? ['--find', '--show'] : [];
  const options = [
    ...where,
    '--partscan',
    '--sector-size',
    `${sectorBytes}`,
    ...(devicePath === undefined ? [] : [devicePath]),
    file,
  ];
  return execFileSync('losetup', options, { encoding: 'utf8' }).trim() || (devicePath ?? '');
}

/** Pulls the disk out: whoever has it open keeps it until he is done. */
export function pull(devicePath: string): void {
  execFileSync('losetup', ['--detach', devicePath]);
}

export function matchOf(paths: readonly string[]): DiskMatch {
  return {
    ...{ ids: [], paths, models: [], buses: [], minSizeBytes: undefined, maxSizeBytes: undefined },
    ...{ isRotational: undefined, allowRemovable: false },
  };
}

/** Opens a pool of loop devices: six of 400 MiB unless the options say otherwise. */
export function openTestDisks(scratch: Scratch, options: DiskTestOptions = {}): Promise<Catalog> {
  const paths = () => ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => loopDisk(scratch, `disk-${name}`, 400));
  const match = options.match ?? matchOf(paths());
  const chosen = { ...testSettings(scratch), wipe: 'discard', ...options, match } as const;
  return openOver(() => openDiskBackend(chosen), { ...chosen, path: scratch.join('data') });
}
