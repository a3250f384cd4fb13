import { closeSync, constants, fstatSync, openSync, type Stats } from 'node:fs';
import { basename, dirname } from 'node:path';
import koffi from 'koffi';
import { encodeLoopConfig, type LoopConfiguration, nameBackingFile } from '../../src/kernel/block/loop-layout.ts';

/**
 * The system calls of the floor: synchronous, in the order they are needed, nothing between them and the kernel. Only
 * the layout of a structure is shared with the driver.
 */

const LOOP_CONFIGURE = 0x4c0a;
const LOOP_CTL_GET_FREE = 0x4c82;

const SYS_open_tree = 428;
const SYS_move_mount = 429;
const SYS_fsopen = 430;
const SYS_fsconfig = 431;
const SYS_fsmount = 432;

const EBUSY = 16;
const EAGAIN = 11;

const F_UNLCK = 2;
const F_WRLCK = 1;
const F_SETLEASE = 1024;

const O_CLOEXEC = 0o2000000;
const O_PATH = 0o10000000;
const AT_FDCWD = -100;
const CLOEXEC = 1;
const FSCONFIG_SET_STRING = 1;
const FSCONFIG_CMD_CREATE = 6;
const OPEN_TREE_CLONE = 1;
const MOVE_MOUNT_F_EMPTY_PATH = 4;
const MOVE_MOUNT_T_EMPTY_PATH = 0x40;
const UMOUNT_NOFOLLOW = 8;

const libc = koffi.load('libc.so.6');
const ioctlNumber = libc.func('int ioctl(int fd, ulong request, long argument)');
const ioctlMemory = libc.func('int ioctl(int fd, ulong request, void *argument)');
const umount2 = libc.func('int umount2(const char *target, int flags)');
const fsopen = libc.func('syscall', 'long', ['long', 'const char *', 'uint']);
const fsconfig = libc.func('syscall', 'long', ['long', 'int', 'uint', 'const char *', 'const char *', 'int']);
const fsmount = libc.func('syscall', 'long', ['long', 'int', 'uint', 'uint']);
const openTree = libc.func('syscall', 'long', ['long', 'int', 'const char *', 'uint']);
const moveMount = libc.func('syscall', 'long', ['long', 'int', 'const char *', 'int', 'const char *', 'uint']);
const spawn = libc.func(
  'int posix_spawn(_Out_ int *pid, const char *path, void *actions, void *attributes, const char **argv, const char **envp)',
);
const fcntl = libc.func('int fcntl(int fd, int command, long argument)');
const waitpid = libc.func('int waitpid(int pid, _Out_ int *status, int options)');

/** Runs a program to its end the cheapest way there is. */
export function runProgram(path: string, args: readonly string[]): void {
  const pid = [0];
  const status = [0];
  const error: unknown = spawn(pid, path, null, null, [path, ...args, null], ['LC_ALL=C', null]);
  if (error !== 0) throw new Error(`posix_spawn ${path}: errno ${error}`);
  checked('waitpid', waitpid(pid[0], status, 0));
  if (status[0] !== 0) throw new Error(`${path} ended with status ${status[0]}`);
}

const lingerMs = 2_000;

/**
 * Opens a file that nobody else may have open, a loop device or another driver: asks for a lease (fcntl(2)). A device lingers
 * after its unmount for as long as another program looks at it.
 */
export function openAlone(path: string): number {
  const fd = openSync(path, constants.O_RDWR | O_CLOEXEC);
  const lastMs = performance.now() + lingerMs;
  let leased: unknown = fcntl(fd, F_SETLEASE, F_WRLCK);
  while (leased !== 0 && koffi.errno() === EAGAIN && performance.now() < lastMs) {
    leased = fcntl(fd, F_SETLEASE, F_WRLCK);
  }
  checked(`F_SETLEASE of ${path}`, leased);
  checked('F_SETLEASE', fcntl(fd, F_SETLEASE, F_UNLCK));
  return fd;
}

/** What there is at a path, without a link on the last two steps of the way. */
export function lookAt(path: string): Stats {
  const flags = O_PATH | O_CLOEXEC | constants.O_NOFOLLOW;
  const parent = openSync(dirname(path), flags | constants.O_DIRECTORY);
  const fd = openSync(`/proc/self/fd/${parent}/${basename(path)}`, flags);
  try {
    return fstatSync(fd);
  } finally {
    closeSync(fd);
    closeSync(parent);
  }
}

/** A loop device over the open file, and the descriptor that keeps it until it is mounted. */
export function attachLoop(
  backingFd: number,
  configuration: Pick<LoopConfiguration, 'label' | 'blockSizeBytes' | 'directIo'>,
): { readonly devicePath: string; readonly fd: number } {
  const controlFd = openSync('/dev/loop-control', constants.O_RDONLY | O_CLOEXEC);
  const configured = { ...configuration, readonly: false, autoclear: true };
  for (;;) {
    const number = checked('LOOP_CTL_GET_FREE', ioctlNumber(controlFd, LOOP_CTL_GET_FREE, 0));
    const devicePath = `/dev/loop${number}`;
    const fd = openSync(devicePath, constants.O_RDWR | O_CLOEXEC);
    const result: unknown = ioctlMemory(fd, LOOP_CONFIGURE, nameBackingFile(encodeLoopConfig(configured), backingFd));
    if (result !== 0 && koffi.errno() === EBUSY) {
      // Somebody else on this machine took it first.
      closeSync(fd);
      continue;
    }
    checked('LOOP_CONFIGURE', result);
    closeSync(backingFd);
    closeSync(controlFd);
    return { devicePath, fd };
  }
}

export function mountFilesystem(fsType: string, devicePath: string, target: string): void {
  const context = checked('fsopen', fsopen(SYS_fsopen, fsType, CLOEXEC));
  checked('fsconfig', fsconfig(SYS_fsconfig, context, FSCONFIG_SET_STRING, 'source', devicePath, 0));
  checked('fsconfig', fsconfig(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, null, null, 0));
  const mount = checked('fsmount', fsmount(SYS_fsmount, context, CLOEXEC, 0));
  moveTo(mount, target);
  closeSync(context);
}

export function bindMount(from: string, target: string): void {
  moveTo(checked('open_tree', openTree(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLONE | O_CLOEXEC)), target);
}

export function unmount(target: string): void {
  checked(`umount2 ${target}`, umount2(target, UMOUNT_NOFOLLOW));
}

function moveTo(mount: number, target: string): void {
  const targetFd = openSync(target, O_PATH | O_CLOEXEC | constants.O_DIRECTORY);
  const flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  checked('move_mount', moveMount(SYS_move_mount, mount, '', targetFd, '', flags));
  closeSync(targetFd);
  closeSync(mount);
}

function checked(name: string, result: unknown): number {
  if (typeof result !== 'number' || result < 0) throw new Error(`${name}: errno ${koffi.errno()}`);
  return result;
}
