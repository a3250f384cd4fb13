import { constants } from 'node:fs';
import { unlink } from 'node:fs/promises';
import { type Descriptor, type Openable, openFile, openReadOnly } from './descriptor.ts';
import { type IoctlRequest, ioctl } from './ioctl.ts';
import type { Lane } from './lane.ts';
import { invoke, type Lent, libcCall } from './libc.ts';

const FICLONE: IoctlRequest = { name: 'FICLONE', number: 0x40049409 };
const FITRIM: IoctlRequest = { name: 'FITRIM', number: 0xc0185879 };

const syncfsCall = libcCall<readonly [Lent]>('int syncfs(int fd)');

/** Writes back all that the filesystem of an open file has in memory (syncfs(2)). */
export async function syncFilesystem(lane: Lane, file: Descriptor): Promise<void> {
  await invoke(lane, syncfsCall, [file], file.path);
}

/** Tells the device below the filesystem what is free. Returns how many bytes that was. */
export async function trim(lane: Lane, filesystem: Openable): Promise<bigint> {
  await using descriptor = await openReadOnly(lane, filesystem);
  return await trimRange(lane, descriptor, 0n, undefined);
}

/**
 * The same for a part of the filesystem that is open.
 * @param lengthBytes undefined: to the end
 * @throws KernelError EINVAL if it starts beyond the end
 */
export async function trimRange(
  lane: Lane,
  directory: Descriptor,
  startBytes: bigint,
  lengthBytes: bigint | undefined,
): Promise<bigint> {
  // struct fstrim_range: start, length, shortest extent; the kernel writes the trimmed bytes to length.
  const range = Buffer.alloc(24);
  range.writeBigUInt64LE(startBytes, 0);
  range.writeBigUInt64LE(lengthBytes ?? (1n << 64n) - 1n - startBytes, 8);
  await ioctl(lane, directory, FITRIM, range);
  return range.readBigUInt64LE(8);
}

/**
 * Makes `toPath` a copy of `fromPath` that shares its blocks, in constant time. `toPath` must not exist; if the
 * filesystem cannot do it (EOPNOTSUPP, EXDEV, EINVAL) it does not exist afterwards either.
 */
export async function reflink(lane: Lane, fromPath: string, toPath: string): Promise<void> {
  await using from = await openReadOnly(lane, fromPath);
  await using to = await openFile(lane, toPath, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    await ioctl(lane, to, FICLONE, from);
  } catch (error) {
    await lane.run(() => unlink(toPath));
    throw error;
  }
}
