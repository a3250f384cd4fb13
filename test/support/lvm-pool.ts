import { execFileSync } from 'node:child_process';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { type LvmPoolOptions, openLvmBackend } from '../../src/pool/kinds/lvm/open.ts';
import type { ThinPoolOptions } from '../../src/pool/kinds/lvm/thin/config.ts';
import { openOver } from '../../src/pool/open.ts';
import type { Scratch } from './scratch.ts';
import { type TestPoolOptions, testSettings } from './test-pool.ts';

export type LvmTestOptions = TestPoolOptions<LvmPoolOptions>;

/** Runs LVM as a test, where there is no udev. */
export function lvm(...args: readonly string[]): string {
  return execFileSync('lvm', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** The volume group of a scratch directory's test. */
let current: { readonly scratch: Scratch; readonly name: string } | undefined;
let count = 0;

/** The volume group that the test has for itself, on these disks. What the test before it had there is removed. */
export function groupFor(scratch: Scratch, devicePaths: readonly string[]): string {
  if (current?.scratch === scratch) return current.name;
  if (current !== undefined) lvm('vgremove', '--force', '--force', '--yes', current.name);
  current = { scratch, name: `test-${process.pid}-${++count}` };
  lvm('vgcreate', '--yes', current.name, ...devicePaths);
  return current.name;
}

/** A thin pool that leaves its volume group something to grow by. */
export const testThinPool: ThinPoolOptions = { sizeBytes: 6n << 30n, metadataBytes: undefined, overcommit: 1 };

/** The disks that a program in the virtual machine was given, and whether its pools are to be of thin volumes. */
export function guestArguments(): { readonly disks: readonly string[]; readonly options: LvmTestOptions } {
  const words = process.argv.slice(2);
  return {
    disks: words.filter((word) => word.startsWith('/dev/')),
    options: words.includes('thin') ? { thinPool: testThinPool } : {},
  };
}

/** Opens the pool of a volume group. */
export function openTestLvm(
  scratch: Pick<Scratch, 'join'>,
  volumeGroup: string,
  options: LvmTestOptions = {},
): Promise<Catalog> {
  const chosen = { ...testSettings(scratch), volumeGroup, devices: [], wipe: 'discard', ...options } as const;
  return openOver(() => openLvmBackend(chosen), { ...chosen, path: volumeGroup });
}
