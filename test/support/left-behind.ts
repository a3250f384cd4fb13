import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';

/** Mounts at or below a directory, the newest first, as a process sees them. */
export function mountsBelow(directory: string, pid: number | 'self' = 'self'): string[] {
  return readFileSync(`/proc/${pid}/mountinfo`, 'utf8')
    .split('\n')
    .map((line) => decodeOctal(line.split(' ')[4] ?? ''))
    .filter((target) => target === directory || target.startsWith(`${directory}/`))
    .reverse();
}

/** What of its filesystem is mounted at a directory: of a bind mount, the directory that it shows; undefined if nothing is. */
export function mountedDirectory(target: string): string | undefined {
  const fields = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .findLast((line) => decodeOctal(line[4] ?? '') === target);
  return fields === undefined ? undefined : decodeOctal(fields[3] ?? '');
}

/** Loop devices over files in a directory, deleted ones included; before them those over one of these devices. */
export function loopsOver(directory: string): string[] {
  const names = readdirSync('/sys/block').filter((name) => name.startsWith('loop'));
  const loops = names.map((name) => ({ device: `/dev/${name}`, file: backingFile(name) }));
  const found = loops.filter(({ file }) => file?.startsWith(`${directory}/`));
  const upon = loops.filter(({ file }) => found.some(({ device }) => device === file));
  return [...upon, ...found].map(({ device }) => device);
}

/** Undoes all mounts at or below a directory and detaches the loop devices over files in it. */
export function undoMounts(directory: string): void {
  // Found before anything is unmounted: what lies on a mount that is gone is shown with another path. A device with
  // autoclear goes by itself, and a moment later its number may be that of somebody else's.
  const persistent = loopsOver(directory)
    .filter((device) => !isAutoclear(basename(device)))
    .map((device) => ({ device, attachment: attachmentOf(device) }));
  for (const target of mountsBelow(directory)) {
    // Left frozen it would stay so, and whoever writes to it with it. It says so if it is not.
    spawnSync('fsfreeze', ['--unfreeze', target]);
    execFileSync('umount', ['--lazy', target]);
  }
  for (const { attachment, device } of persistent) {
    if (attachmentOf(device) === attachment) detachLoopDevice(device);
  }
}

/**
 * Detaches a loop device, as losetup(8) does. A read-only volume leaves its mark on the device's number (BLKROSET), and
 * the next user of that number, another test's mkfs, would get EPERM from its first write.
 */
export function detachLoopDevice(device: string): void {
  spawnSync('blockdev', ['--setrw', device]);
  spawnSync('losetup', ['--detach', device]);
}

/** Another number for each time that a file is attached or detached (Documentation/ABI/testing/sysfs-block, diskseq). */
function attachmentOf(device: string): string {
  return readFileSync(`/sys/block/${basename(device)}/diskseq`, 'ascii');
}

function backingFile(loop: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${loop}/loop/backing_file`, 'utf8').trim();
  } catch {
    return undefined;
  }
}

function isAutoclear(loop: string): boolean {
  try {
    return readFileSync(`/sys/block/${loop}/loop/autoclear`, 'utf8').trim() === '1';
  } catch {
    return true;
  }
}

/** mountinfo writes spaces and the like as octal escapes. */
function decodeOctal(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}
