import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { format } from '../../command/mkfs.ts';
import { type Content, probeContent } from '../../kernel/blkid.ts';
import { deviceSizeBytes } from '../../kernel/block.ts';
import { type DeviceNumber, sameDevice } from '../../kernel/device.ts';
import { isErrno, KernelError } from '../../kernel/errno.ts';
import { resizeFile, syncFile } from '../../kernel/file.ts';
import { thaw } from '../../kernel/freeze.ts';
import { growMounted } from '../../kernel/grow.ts';
import type { Lane } from '../../kernel/lane.ts';
import { isOpenElsewhere } from '../../kernel/lock.ts';
import { attachLoop, holdLoop, listLoops, refreshLoopSize } from '../../kernel/loop.ts';
import { mountFilesystem, unmount } from '../../kernel/mount.ts';
import { type FileStatus, openDirectory, statusOf } from '../../kernel/path.ts';
import { DataLoss, FailedPrecondition } from '../../volume/errors.ts';
import { step } from '../../volume/step.ts';
import { sicknessOf } from '../quarantine.ts';
import type { Ballast } from './ballast.ts';
import { detachFromDead } from './devices-by-path.ts';
import { FormatMarker } from './format-marker.ts';
import { writeHealthFile } from './health-file.ts';

export interface HomeMount {
  readonly lane: Lane;
  readonly poolName: string;
  /** The block device or the backing file, locked by the caller. */
  readonly source: string;
  /** An existing directory of the driver's own. */
  readonly root: string;
  /** The size asked for, for a backing file; undefined for a device. */
  readonly fileSizeBytes: bigint | undefined;
  /** Room on the host of a backing file. */
  readonly hostBallast: Ballast | undefined;
}

/** Held open, so that it cannot go before it is mounted. */
interface SourceDevice extends AsyncDisposable {
  readonly devicePath: string;
  readonly device: DeviceNumber;
  /** For a backing file: the loop device's number. */
  readonly number?: number;
}

/** Sees to it that the source's filesystem is mounted at the root: made first if, and only if, the source is blank. */
export async function mountHome(home: HomeMount): Promise<void> {
  const { poolName, root } = home;
  const status = await usableMount(home);
  await using attached = await findDevice(home);
  if (status !== undefined) {
    if (attached === undefined || !sameDevice(status.device, attached.device)) {
      throw new FailedPrecondition(
        `pool ${poolName}: something else is mounted at ${root}, which is the pool's own place. Unmount it.`,
      );
    }
  } else {
    if (attached === undefined || home.fileSizeBytes === undefined) await formatIfBlank(home);
    await using device = attached ?? (await attachFile(home));
    await step('open/mount', () => mountSource(home, device.devicePath));
  }
  if (home.fileSizeBytes !== undefined) await growBackingFile(home, home.fileSizeBytes);
}

/** Unmounts the pool's filesystem. In use by volumes: it stays, and the next start finds it. */
export async function unmountHome(lane: Lane, root: string): Promise<void> {
  try {
    await unmount(lane, root);
  } catch (error) {
    if (!isErrno(error, 'EBUSY', 'EINVAL')) throw error;
  }
}

/** What is mounted at the root; undefined if nothing is, or was until now: a filesystem that is dead is of no use. */
async function usableMount({ lane, poolName, root }: HomeMount): Promise<FileStatus | undefined> {
  try {
    const status = await statusOf(lane, root);
    if (!status.isMountRoot) return undefined;
    // A driver that was killed while it grew left it frozen: then whoever writes waits for ever.
    await step('open/thaw', () => thaw(lane, root));
    await writeHealthFile(lane, root);
    return status;
  } catch (error) {
    const sickness = sicknessOf(error);
    if (sickness === undefined) throw error;
    await detachFromDead(lane);
    await unmount(lane, root).catch((refusal) => {
      if (!isErrno(refusal, 'EBUSY')) throw error;
      throw new FailedPrecondition(
        `pool ${poolName}: volumes in use keep its dead filesystem mounted. Stop the pods that have them; then it is mounted anew.`,
      );
    });
    return undefined;
  }
}

/**
 * The device that shows the source already. A backing file must never get a second loop device: two devices would be
 * two filesystems on the same blocks, each sure to be alone. One may exist although nothing is mounted here, when the
 * mount of a driver before us lives on in another mount namespace.
 */
async function findDevice({ lane, source, fileSizeBytes }: HomeMount): Promise<SourceDevice | undefined> {
  const status = await statusOf(lane, source);
  if (fileSizeBytes === undefined) {
    const device = status.represents;
    return device === undefined
      ? undefined
      : { devicePath: source, device, [Symbol.asyncDispose]: async () => undefined };
  }
  if (!(await isOpenElsewhere(lane, source))) return undefined;
  for (const loop of await listLoops(lane)) {
    if (!sameDevice(loop.backingDevice, status.device) || loop.backingInode !== status.inode) continue;
    const hold = await holdLoop(lane, loop);
    if (hold !== undefined) return { ...loop, [Symbol.asyncDispose]: () => hold[Symbol.asyncDispose]() };
  }
  return undefined;
}

async function attachFile({ lane, poolName, source }: HomeMount): Promise<SourceDevice> {
  const { descriptor, ...loop } = await attachLoop(lane, {
    backing: source,
    label: `pool ${poolName}`.slice(0, 60),
    readonly: false,
    autoclear: true,
    blockSizeBytes: 512,
  });
  return { ...loop, [Symbol.asyncDispose]: () => descriptor[Symbol.asyncDispose]() };
}

async function formatIfBlank({ lane, poolName, source, root }: HomeMount): Promise<void> {
  const marker = new FormatMarker(lane, dirname(root), poolName);
  const content = await probeContent(lane, source);
  const unfinished = await marker.names(source);
  if (!unfinished) {
    if (content.kind === 'filesystem' && content.type === 'xfs') return;
    const found = await describeContent(lane, source, content);
    if (found !== undefined) {
      throw new FailedPrecondition(
        `pool ${poolName}: ${source} is not blank: it holds ${found}. Holdfast formats blank disks only. If nothing on it is needed, clear it with: wipefs --all ${source} && dd if=/dev/zero of=${source} bs=1M count=1 conv=notrunc`,
      );
    }
  }
  await step('open/mark', () => marker.set(source));
  await step('open/format', () => format({ path: source, fsType: 'xfs', blockSizeBytes: 512, extraArguments: [] }));
  await step('open/unmark', () => marker.clear());
}

/** No signature is not yet blank: a database on a raw disk has none either. */
async function describeContent(lane: Lane, source: string, content: Content): Promise<string | undefined> {
  switch (content.kind) {
    case 'blank':
      return (await startsWithZeros(lane, source)) ? undefined : 'data of an unknown kind';
    case 'ambivalent':
      return 'signatures of several kinds';
    default:
      return `${content.kind} (${content.type})`;
  }
}

const blankBytes = 1 << 20;

async function startsWithZeros(lane: Lane, path: string): Promise<boolean> {
  const start = Buffer.alloc(blankBytes);
  await lane.run(async () => {
    await using file = await open(path, 'r');
    await file.read(start, 0, blankBytes, 0);
  });
  return start.every((byte) => byte === 0);
}

async function mountSource(
  { lane, poolName, source, root, fileSizeBytes, hostBallast }: HomeMount,
  devicePath: string,
): Promise<void> {
  try {
    await using target = await openDirectory(lane, root);
    const mount = () =>
      mountFilesystem(lane, {
        fsType: 'xfs',
        source: devicePath,
        // A sparse file gives what is deleted inside back to its host at once.
        parameters: fileSizeBytes === undefined ? [] : [['discard']],
        attributes: { nosuid: true, nodev: true, noexec: true, atime: 'noatime' },
        target,
      });
    // What the host had no room for when it was unmounted, XFS writes now.
    await (hostBallast === undefined ? mount() : hostBallast.afloat(lane, mount));
  } catch (error) {
    if (isErrno(error, 'ENOSPC')) {
      throw new FailedPrecondition(
        `pool ${poolName}: the filesystem that ${source} lies in is full, so that it cannot be mounted: free some of it.`,
      );
    }
    if (error instanceof KernelError) {
      throw new DataLoss(
        `pool ${poolName}: the filesystem on ${source} cannot be mounted (${error.message}). See the kernel's log (dmesg); check it with: xfs_repair -n ${source}`,
      );
    }
    throw error;
  }
}

/**
 * A larger size in the configuration takes effect at the next start. It never shrinks. File, device and filesystem are
 * each looked at by themselves: a crash may have come after any of them had grown.
 */
async function growBackingFile(home: HomeMount, wantedBytes: bigint): Promise<void> {
  const { lane, source, root } = home;
  if ((await statusOf(lane, source)).sizeBytes < wantedBytes) {
    await step('open/extend', async () => {
      await resizeFile(lane, source, wantedBytes);
      await syncFile(lane, source);
    });
  }
  await using loop = await findDevice(home);
  const { device } = await statusOf(lane, root);
  if (loop?.number === undefined || !sameDevice(loop.device, device)) return;
  const { devicePath, number } = loop;
  const deviceBytes = (await statusOf(lane, source)).sizeBytes;
  if ((await deviceSizeBytes(lane, devicePath)) !== deviceBytes) {
    await step('open/resize', () => refreshLoopSize(lane, number));
  }
  await step('open/grow', () => growMounted(lane, { fsType: 'xfs', directory: root, devicePath, deviceBytes }));
}
