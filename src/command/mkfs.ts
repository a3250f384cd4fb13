import type { FilesystemType } from '../volume/filesystem.ts';
import { CommandError, run } from './run.ts';

export interface FormatRequest {
  /** A regular file or a device that is known to be blank, and that no other program can see or use. */
  readonly path: string;
  readonly fsType: FilesystemType;
  readonly sizeBytes: bigint;
  /** The logical block size of the device that will show the file. */
  readonly blockSizeBytes: number;
  /** From `parseMkfsOptions`. */
  readonly extraArguments: readonly string[];
  /** All of it reads as zeros, as a new file does. */
  readonly isZeroed?: boolean;
}

/**
 * Makes a filesystem. All three programs flush their writes before they end.
 * @throws CommandError
 */
export async function format(request: FormatRequest): Promise<void> {
  try {
    await make(request);
  } catch (error) {
    // mke2fs before 1.47.
    const isUnknown = error instanceof CommandError && error.stderr.includes(prezeroed);
    if (request.isZeroed !== true || !isUnknown) throw error;
    await make({ ...request, isZeroed: false });
  }
}

/** Tables of inodes need no zeros then: else the kernel writes them after the first mount, 16 MiB for each GiB. */
const prezeroed = 'assume_storage_prezeroed';

async function make(request: FormatRequest): Promise<void> {
  const { program, args } = mkfsCommand(request);
  try {
    await run(program, args);
  } catch (error) {
    if (!failedOverMounts(error)) throw error;
    await run('unshare', [...withoutMountTable, program, ...args]);
  }
}

/**
 * mkfs.btrfs checks for every mount on the node if it is over the given file. It gives up at the first loop device
 * whose file cannot be read, because the disk below has failed.
 */
function failedOverMounts(error: unknown): boolean {
  return error instanceof CommandError && error.stderr.includes('cannot check mount status');
}

/**
 * unshare(1), with a mount namespace where the table of mounts is empty. Only mkfs.btrfs runs like this, after that
 * failure: the namespace has a copy of every mount until the program ends. No other program can see the file, so no
 * mount is over it.
 */
const withoutMountTable = [
  ...['--mount', '--propagation', 'slave', 'sh', '-ec'],
  'mount -t tmpfs -o size=64k none /proc; install -d /proc/self; : >/proc/self/mounts; exec "$@"',
  'sh',
] as const;

/**
 * Does not discard (a new image has nothing to discard) and leaves tables to be initialised when needed, so that an
 * empty volume stays small.
 */
export function mkfsCommand(request: FormatRequest): {
  readonly program: string;
  readonly args: readonly string[];
} {
  return { program: `mkfs.${request.fsType}`, args: [...baseArguments(request), request.path] };
}

function baseArguments(request: FormatRequest): string[] {
  const { blockSizeBytes, extraArguments: extra } = request;
  switch (request.fsType) {
    case 'ext4': {
      // After an I/O error stop writing instead of spreading it; no blocks held back for root. A caller's own -e or
      // -m comes later and wins. -F: the target is a plain file, mke2fs would ask.
      const zeros = request.isZeroed === true ? [`${prezeroed}=1`] : [];
      const lazy = ['lazy_itable_init=1', 'lazy_journal_init=1', 'nodiscard', ...zeros].join(',');
      const extended = extra.includes('-E') ? [] : ['-E', lazy];
      return ['-q', '-F', '-e', 'remount-ro', '-m', '0', ...ext4Geometry(request), ...extended, ...extra];
    }
    case 'xfs': {
      const sector = extra.includes('-s') ? [] : ['-s', `size=${blockSizeBytes}`];
      return ['-q', '-f', '-K', ...sector, ...extra.filter((option) => option !== '-K')];
    }
    case 'btrfs':
      return ['-q', '-f', '-K', ...extra];
  }
}

/**
 * mke2fs gives small filesystems blocks of 1024 bytes, which cannot be mounted from a device with larger ones. Larger
 * blocks make larger groups, and every second group or so has a copy of all group descriptors. So a small file gets
 * smaller groups.
 */
function ext4Geometry({ blockSizeBytes, extraArguments, sizeBytes }: FormatRequest): string[] {
  if (blockSizeBytes <= 1024 || extraArguments.includes('-b')) return [];
  const group = sizeBytes <= 128n << 20n && !extraArguments.includes('-g') ? ['-g', '4096'] : [];
  return ['-b', `${blockSizeBytes}`, ...group];
}
