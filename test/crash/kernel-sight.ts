import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';

/*
 * What the kernel has, read from /sys and /proc with none of the driver's own code: what watches it must not share its
 * mistakes.
 */

/** A loop device with a file attached. */
export interface Loop {
  readonly number: number;
  readonly backingFile: string;
  readonly readonly: boolean;
}

export interface MountLine {
  readonly target: string;
  /** `major:minor` of the filesystem. */
  readonly device: string;
  /** What of the filesystem is mounted; for a device node its name in /dev, with a slash before it. */
  readonly root: string;
  readonly source: string;
  readonly options: readonly string[];
}

/** Loop devices over files in a directory, removed ones included. */
export function loopsOver(directory: string): Loop[] {
  return readdirSync('/sys/block')
    .filter((name) => name.startsWith('loop'))
    .flatMap((name) => {
      const backingFile = readIfThere(`/sys/block/${name}/loop/backing_file`);
      if (backingFile === undefined || !backingFile.startsWith(`${directory}/`)) return [];
      const readonly = readIfThere(`/sys/block/${name}/ro`) === '1';
      return [{ number: Number(name.slice('loop'.length)), backingFile, readonly }];
    });
}

/** Who keeps a loop device: processes that have it open, or a filesystem on it in their mount namespace. */
export function holdersOf({ number }: Loop): string[] {
  const isHolding = (pid: string) =>
    new RegExp(`^\\d+ \\d+ 7:${number} | /dev/loop${number} `, 'm').test(readIfThere(`/proc/${pid}/mountinfo`) ?? '') ||
    openFiles(pid).includes(`/dev/loop${number}`);
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && isHolding(name))
    .map((pid) => `${pid} (${readIfThere(`/proc/${pid}/comm`) ?? 'gone'})`);
}

/** Mounts at or below a directory, in the order they were made. */
export function mountsBelow(directory: string): MountLine[] {
  return mountTable().filter(({ target }) => target === directory || target.startsWith(`${directory}/`));
}

/** Whether a mount shows the device: its filesystem, or its node on a file. */
export function isShown({ number }: Loop, mounts: readonly MountLine[]): boolean {
  return mounts.some(
    ({ device, root, source }) =>
      device === `7:${number}` || source === `/dev/loop${number}` || root === `/loop${number}`,
  );
}

/** The processes that have a lock (flock, lease) on a file or directory. */
export function lockHolders(path: string): number[] {
  const { dev, ino } = statSync(path, { bigint: true });
  // proc_locks(5) writes the filesystem's device in hexadecimal; loop devices of a test machine have small minor numbers.
  const hexadecimal = (number: bigint) => number.toString(16).padStart(2, '0');
  const file = `${hexadecimal(dev >> 8n)}:${hexadecimal(dev & 255n)}:${ino}`;
  return readFileSync('/proc/locks', 'utf8')
    .split('\n')
    .map((line) => /^\d+: (?:-> )?\S+ +\S+ +\S+ +(\d+) (\S+) /.exec(line))
    .flatMap((match) => (match?.[2] === file ? [Number(match[1])] : []));
}

function mountTable(): MountLine[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const [left = '', right = ''] = line.split(' - ');
      const [, , device = '', root = '', target = '', options = ''] = left.split(' ');
      return { target, device, root, source: right.split(' ')[1] ?? '', options: options.split(',') };
    });
}

function openFiles(pid: string): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
  } catch {
    // It has ended, or closed one meanwhile.
    return [];
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
