import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import {
  attachLoop,
  detachLoop,
  type LoopDevice,
  type LoopRequest,
  listLoops,
  loopStatus,
} from '../../src/kernel/block/loop.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { unmount } from '../../src/kernel/mount/mount.ts';
import { readMountTable } from '../../src/kernel/mount/mount-table.ts';
import type { FilesystemType } from '../../src/volume/filesystem.ts';

export const queue = new DiskQueue('test', 8);
export const run = promisify(execFile);

/** A fresh directory on the root filesystem; with it go the mounts below it and the loop devices labelled for it. */
export async function scratch(t: Pick<TestContext, 'after'>): Promise<string> {
  const directory = await mkdtemp('/var/tmp/holdfast-kernel-');
  t.after(async () => {
    const mounts = await readMountTable(queue);
    for (const { target } of mounts.reverse()) {
      if (target.startsWith(`${directory}/`)) await unmount(queue, target);
    }
    // Asked again when it is detached: by then its number may be somebody else's.
    const isOurs = ({ label }: { readonly label: string }) => label.startsWith(basename(directory));
    for (const loop of (await listLoops(queue)).filter(isOurs)) {
      await detachLoop(queue, loop.number, async (read) => isOurs(await read()));
    }
    await rm(directory, { recursive: true });
  });
  return directory;
}

/** mkfs at its smallest and quickest. */
const mkfs: Readonly<Record<FilesystemType, { readonly bytes: number; readonly command: readonly string[] }>> = {
  ext4: { bytes: 32 << 20, command: ['mkfs.ext4', '-q', '-F'] },
  xfs: { bytes: 300 << 20, command: ['mkfs.xfs', '-q', '-f'] },
  btrfs: { bytes: 128 << 20, command: ['mkfs.btrfs', '-q', '-f'] },
};

export const filesystems = ['ext4', 'xfs', 'btrfs'] as const;

/** A sparse image, with a filesystem on it if one is named. */
export async function image(directory: string, fsType?: FilesystemType, name = 'image'): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, '');
  await truncate(path, fsType === undefined ? 32 << 20 : mkfs[fsType].bytes);
  if (fsType !== undefined) {
    const [program = '', ...options] = mkfs[fsType].command;
    await run(program, [...options, path]);
  }
  return path;
}

/** Attaches an image so that `scratch` finds it again. */
export function attach(
  backingPath: string,
  directory: string,
  request: Partial<LoopRequest> = {},
): Promise<LoopDevice> {
  const label = basename(directory);
  return attachLoop(queue, {
    backing: backingPath,
    label,
    readonly: false,
    autoclear: true,
    blockSizeBytes: 512,
    ...request,
  });
}

/**
 * Waits until nothing is attached to the device. It may take a moment longer than the last user of ours: any process on
 * this machine that looks at loop devices holds off their autoclear while it looks.
 */
export async function detached({ number }: { readonly number: number }, directory: string): Promise<void> {
  const label = basename(directory);
  // Another process may have taken the number since.
  await eventually(async () => !(await loopStatus(queue, number))?.label.startsWith(label));
}

/** Only a failure takes this long. */
const patienceMs = 30_000;

/** Waits for what must come. */
export async function eventually(isSo: () => Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + patienceMs;
  while (!(await isSo())) {
    if (performance.now() > giveUpAt) throw new Error(`still not so after ${patienceMs} ms: ${isSo}`);
    await setTimeout(5);
  }
}

/** The descriptors of this process, apart from the one that reads the list. */
export async function openDescriptors(): Promise<Map<number, bigint>> {
  const flags = new Map<number, bigint>();
  for (const name of await readdir('/proc/self/fdinfo')) {
    const text = await readFile(`/proc/self/fdinfo/${name}`, 'utf8').catch(() => '');
    const octal = /^flags:\s+0?([0-7]+)$/m.exec(text)?.[1];
    if (octal !== undefined) flags.set(Number(name), BigInt(`0o${octal}`));
  }
  return flags;
}
