import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';

const FS_IOC_FSGETXATTR: IoctlRequest = { name: 'FS_IOC_FSGETXATTR', number: 0x801c581f };
const FS_IOC_FSSETXATTR: IoctlRequest = { name: 'FS_IOC_FSSETXATTR', number: 0x401c5820 };

/** struct fsxattr (linux/fs.h): flags, extent size, extents, project, copy-on-write extent size, 8 bytes of padding. */
const attributesBytes = 28;
const flagsAt = 0;
const projectAt = 12;

const FS_XFLAG_IMMUTABLE = 0x8;
const FS_XFLAG_APPEND = 0x10;
const FS_XFLAG_PROJINHERIT = 0x200;

/** The project whose quota a file or directory counts to; 0: none. */
export interface Project {
  readonly id: number;
  /** For a directory: new files in it belong to the project too. */
  readonly isInherited: boolean;
}

/** @param file a regular file or directory, open for reading: O_PATH is not enough */
export async function readProject(queue: DiskQueue, file: Descriptor): Promise<Project> {
  const attributes = await readAttributes(queue, file);
  return {
    id: attributes.readUInt32LE(projectAt),
    isInherited: (attributes.readUInt32LE(flagsAt) & FS_XFLAG_PROJINHERIT) !== 0,
  };
}

/**
 * Puts a file or directory into a project. Only a directory can hand it on: ext4 refuses the flag on a file.
 * @throws KernelError EOPNOTSUPP if the filesystem has no projects; EDQUOT if the project has no room for it
 */
export async function writeProject(queue: DiskQueue, file: Descriptor, project: Project): Promise<void> {
  const attributes = await readAttributes(queue, file);
  const flags = attributes.readUInt32LE(flagsAt);
  const changed = project.isInherited ? flags | FS_XFLAG_PROJINHERIT : flags & ~FS_XFLAG_PROJINHERIT;
  if (changed >>> 0 === flags && attributes.readUInt32LE(projectAt) === project.id) return;
  const set = async (newFlags: number) => {
    attributes.writeUInt32LE(newFlags >>> 0, flagsAt);
    await ioctl(queue, file, FS_IOC_FSSETXATTR, attributes);
  };
  const fixed = flags & (FS_XFLAG_IMMUTABLE | FS_XFLAG_APPEND);
  // ext4 changes nothing else on a file that keeps one of these flags (fs/ext4/ioctl.c).
  if (fixed !== 0) await set(flags & ~fixed);
  attributes.writeUInt32LE(project.id, projectAt);
  await set(changed & ~fixed);
  if (fixed !== 0) await set(changed);
}

/** Clears the flags that keep even root from unlinking a file (chattr(1), `i` and `a`). */
export async function makeRemovable(queue: DiskQueue, file: Descriptor): Promise<void> {
  const attributes = await readAttributes(queue, file);
  const flags = attributes.readUInt32LE(flagsAt);
  const fixed = FS_XFLAG_IMMUTABLE | FS_XFLAG_APPEND;
  if ((flags & fixed) === 0) return;
  attributes.writeUInt32LE((flags & ~fixed) >>> 0, flagsAt);
  await ioctl(queue, file, FS_IOC_FSSETXATTR, attributes);
}

async function readAttributes(queue: DiskQueue, file: Descriptor): Promise<Buffer> {
  const attributes = Buffer.alloc(attributesBytes);
  await ioctl(queue, file, FS_IOC_FSGETXATTR, attributes);
  return attributes;
}
