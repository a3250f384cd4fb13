import { constants } from 'node:fs';
import koffi from 'koffi';
import { type Descriptor, openFlags } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctlNow, ioctlToOpen } from '../call/ioctl.ts';
import { setTimesToNow } from './entry.ts';

/** xfs_fs.h: a file's handle, and a file that is opened by it. Both take a struct xfs_fsop_handlereq. */
const XFS_IOC_FD_TO_HANDLE: IoctlRequest = { name: 'XFS_IOC_FD_TO_HANDLE', number: 0xc038586a };
const XFS_IOC_OPEN_BY_HANDLE: IoctlRequest = { name: 'XFS_IOC_OPEN_BY_HANDLE', number: 0xc038586b };

/** The places of the fields of struct xfs_fsop_handlereq, which is the same on x86_64 and arm64. */
const at = { fd: 0, openFlags: 16, inHandle: 24, inBytes: 32, outHandle: 40, outBytes: 48 };
const requestBytes = 56;
const handleBytes = 24;

/**
 * Opens a file of an XFS again, for reading and writing, so that no write through it changes the file's times
 * (FMODE_NOCMTIME in fs/xfs/xfs_handle.c). Each change of a time is a change of metadata: fdatasync(2) ignores it, but a
 * loop device answers a flush by fsync(2), which then writes the log of the filesystem too, and flushes the disk twice.
 * The times of the file are set to now.
 * @param directory any directory of the same filesystem
 * @returns undefined if the filesystem, or the kernel for this process, has no such way
 */
export async function reopenUntimed(
  queue: DiskQueue,
  directory: Descriptor,
  file: Descriptor,
): Promise<Descriptor | undefined> {
  // One block of memory for the request, the handle and its length, as the request has pointers to both.
  const memory = Buffer.alloc(requestBytes + handleBytes + 4);
  const request = memory.subarray(0, requestBytes);
  const address = koffi.address(memory);
  const lengthAt = requestBytes + handleBytes;
  memory.writeUInt32LE(handleBytes, lengthAt);
  request.writeBigUInt64LE(address + BigInt(requestBytes), at.outHandle);
  request.writeBigUInt64LE(address + BigInt(lengthAt), at.outBytes);
  try {
    return await file.during(async (_path, fd) => {
      request.writeUInt32LE(fd, at.fd);
      // The inode of an open file is in memory.
      ioctlNow(directory, XFS_IOC_FD_TO_HANDLE, request);
      request.writeUInt32LE(constants.O_RDWR | openFlags.O_CLOEXEC, at.openFlags);
      request.writeBigUInt64LE(address + BigInt(requestBytes), at.inHandle);
      request.writeUInt32LE(memory.readUInt32LE(lengthAt), at.inBytes);
      await setTimesToNow(queue, file.path);
      return await ioctlToOpen(queue, directory, XFS_IOC_OPEN_BY_HANDLE, request, file.path);
    });
  } catch (error) {
    if (isErrno(error, 'ENOTSUP', 'ENOTTY', 'EPERM', 'ESTALE')) return undefined;
    throw error;
  }
}
