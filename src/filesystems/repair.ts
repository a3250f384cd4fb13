import { checkBtrfs, repairExt4, repairXfs } from '../command/fsck.ts';
import { CommandError } from '../command/run.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import { repairTornExt4 } from './ext4-torn.ts';

/** A filesystem that is not in use, in a file or on a device. */
export interface Repairable {
  readonly path: string;
  readonly fsType: FilesystemType;
  /** Mounts it for a moment. */
  mount(): Promise<void>;
}

/** Exit code of fsck(8). */
const operationalError = 8;

/** For an operator with a copy of it. */
export const repairCommands: Readonly<Record<FilesystemType, string>> = {
  ext4: 'e2fsck -f',
  xfs: 'xfs_repair -f',
  btrfs: 'btrfs check',
};

/**
 * Checks a filesystem, mends what it finds, and sees that it can be mounted.
 * It may change anything: it is for clones.
 * @param programs where programs run that read a disk for long
 * @throws CommandError, KernelError
 */
export async function repairFilesystem(programs: DiskQueue, filesystem: Repairable): Promise<void> {
  const { fsType, path } = filesystem;
  if (fsType === 'ext4') await repairOrComplete(programs, path);
  else if (fsType === 'xfs') await programs.run(() => repairXfs(path, () => filesystem.mount()));
  else await programs.run(() => checkBtrfs(path));
  await filesystem.mount();
}

/** Also where e2fsck(8) cannot begin: a power cut tears a superblock. */
async function repairOrComplete(programs: DiskQueue, path: string): Promise<void> {
  try {
    await programs.run(() => repairExt4(path));
  } catch (error) {
    const mayBeTorn = error instanceof CommandError && error.exitCode === operationalError;
    if (!mayBeTorn || !(await repairTornExt4(programs, path))) throw error;
  }
}
