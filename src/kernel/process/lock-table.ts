import type { DeviceNumber } from '../device.ts';

/** A lock on a whole file (flock(2)) in /proc/locks. */
export interface FileLock {
  /** 0 if the holder is in a process namespace that we do not see. */
  readonly pid: number;
  readonly device: DeviceNumber;
  readonly inode: bigint;
}

/** `12: FLOCK  ADVISORY  WRITE 4711 08:02:123456 0 EOF`; the device's numbers are hexadecimal (proc_locks(5)). */
const heldFlock = /^[0-9]+: FLOCK +\S+ +\S+ +(-?[0-9]+) ([0-9a-f]+):([0-9a-f]+):([0-9]+) /;

/** The flocks that are held; waiting ones are left out. */
export function parseFileLocks(text: string): FileLock[] {
  return text.split('\n').flatMap((line) => {
    const [, pid, major, minor, inode] = heldFlock.exec(line) ?? [];
    if (pid === undefined || major === undefined || minor === undefined || inode === undefined) return [];
    const device = { major: Number.parseInt(major, 16), minor: Number.parseInt(minor, 16) };
    return [{ pid: Math.max(0, Number(pid)), device, inode: BigInt(inode) }];
  });
}
