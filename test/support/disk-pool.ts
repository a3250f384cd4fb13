import { execFileSync } from 'node:child_process';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { type DiskPoolOptions, openDiskBackend } from '../../src/pool/kinds/disk/open.ts';
import { openOver } from '../../src/pool/open.ts';
import type { Scratch } from './scratch.ts';
import { type TestPoolOptions, testSettings } from './test-pool.ts';

export type DiskTestOptions = TestPoolOptions<DiskPoolOptions>;

/** Only what hangs takes this long. */
const patienceMs = 120_000;

export function shell(command: string): string {
  return execFileSync('sh', ['-ec', command], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: patienceMs,
  });
}

/** Makes a disk blank again, whatever a test has left on it. */
export function blankDisk(device: string): void {
  shell(`
    for name in $(dmsetup ls | grep -o '^holdfast-disk-[^[:space:]]*'); do dmsetup remove --noudevsync $name; done
    wipefs --quiet --all ${device}
    blkdiscard --zeroout ${device}
    blockdev --flushbufs ${device}
    blockdev --rereadpt ${device}
  `);
}

/** Somebody's filesystem with a file of his, in the place of whatever the disk held, and mounted by nobody. */
export function formatDisk(device: string, { mkfs = 'mkfs.ext4 -q -F', text = 'precious' } = {}): void {
  shell(`
    ${mkfs} ${device}
    mkdir -p /run/his
    mount ${device} /run/his
    echo ${text} >/run/his/file
    umount /run/his
  `);
}

/** The disk that the test of a scratch directory has for itself: blank at first. */
const given = new WeakSet<Scratch>();

export function diskFor(scratch: Scratch, device: string): string {
  if (!given.has(scratch)) blankDisk(device);
  given.add(scratch);
  return device;
}

/** Opens the pool of a disk. */
export function openTestDisk(
  scratch: Pick<Scratch, 'join'>,
  device: string,
  options: DiskTestOptions = {},
): Promise<Catalog> {
  const chosen = { ...testSettings(scratch), device, wipe: 'discard', adopt: false, ...options } as const;
  return openOver(() => openDiskBackend(chosen), { ...chosen, path: device });
}

/** The disks that a program in the virtual machine was given, by their serial numbers. */
export function guestDisks(): ReadonlyMap<string, string> {
  const disks = process.argv.slice(2).filter((word) => word.includes('='));
  return new Map(disks.map((word) => word.split('=', 2) as [string, string]));
}
