import { type FormatRequest, format } from '../command/mkfs.ts';
import { CommandError } from '../command/run.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { KernelError } from '../kernel/call/errno.ts';
import { InvalidArgument } from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import { mountBriefly } from './brief-mount.ts';

/** The device of a volume on its way. */
export interface FormatTarget {
  readonly calls: DiskQueue;
  /** Where mkfs runs. */
  readonly formatQueue: DiskQueue;
  withDevice(work: (devicePath: string) => Promise<void>): Promise<void>;
}

export interface NewFilesystem {
  readonly fsType: FilesystemType;
  readonly sizeBytes: bigint;
  readonly blockSizeBytes: number;
  readonly mkfsArguments: readonly string[];
}

/** Makes the filesystem of a new volume. @throws InvalidArgument if the arguments of its class are at fault */
export async function formatVolume(target: FormatTarget, filesystem: NewFilesystem): Promise<void> {
  const { calls, formatQueue, withDevice } = target;
  const { blockSizeBytes, fsType, mkfsArguments: extraArguments, sizeBytes } = filesystem;
  const request: Omit<FormatRequest, 'path'> = { blockSizeBytes, extraArguments, fsType, sizeBytes };
  try {
    await withDevice(async (path) => {
      await formatQueue.run(() => format({ ...request, path }));
      // With options mkfs can make a filesystem that this kernel cannot mount, e.g. with blocks larger than a page.
      if (extraArguments.length > 0) await mountBriefly(calls, fsType, path);
    });
  } catch (error) {
    if (extraArguments.length === 0) throw error;
    if (error instanceof CommandError) throw new InvalidArgument(`mkfsOptions: ${error.message}`);
    if (!(error instanceof KernelError)) throw error;
    throw new InvalidArgument(`mkfsOptions: they make an ${fsType} that this node cannot mount (${error.message}).`);
  }
}
