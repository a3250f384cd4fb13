import { getSystemErrorMap } from 'node:util';

/** Numbers that libuv has no name for, but filesystems and block devices answer with (errno(3), asm-generic/errno.h). */
const beyondLibuv: ReadonlyMap<number, readonly [string, string]> = new Map([
  [15, ['ENOTBLK', 'block device required']],
  [74, ['EBADMSG', 'bad message, or a checksum on the disk does not fit']],
  // libuv has a name, but its words speak of sockets.
  [95, ['ENOTSUP', 'operation not supported']],
  [116, ['ESTALE', 'stale file handle']],
  [117, ['EUCLEAN', 'the filesystem is damaged']],
  [122, ['EDQUOT', 'disk quota exceeded']],
  [123, ['ENOMEDIUM', 'no medium found']],
  [124, ['EMEDIUMTYPE', 'wrong medium type']],
  [129, ['EKEYREJECTED', 'key was rejected']],
]);

const systemErrors = getSystemErrorMap();

/** A system call that the kernel refused. The message carries paths of ours, never a mount option's value (X02). */
export class KernelError extends Error {
  /** As in its man page; for a call with commands, with the command: `fsconfig(FSCONFIG_CMD_CREATE)`. */
  readonly syscall: string;
  readonly errno: number;
  /** The name of `errno`: `ENOENT`. */
  readonly code: string;
  readonly path?: string;
  /** What the filesystem said about it, where it said anything. */
  readonly detail?: string;

  constructor(failure: { syscall: string; errno: number; path?: string | undefined; detail?: string | undefined }) {
    const { syscall, errno, path, detail } = failure;
    const [code, words] = describe(errno);
    const where = path === undefined ? '' : ` ${path}`;
    super(`${syscall}${where}: ${detail === undefined ? words : detail} (${code})`);
    this.name = 'KernelError';
    this.syscall = syscall;
    this.errno = errno;
    this.code = code;
    if (path !== undefined) this.path = path;
    if (detail !== undefined) this.detail = detail;
  }
}

/** Whether `error` is one of the kernel's, ours or Node's own, with one of these names. */
export function isErrno(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && codes.includes(error.code);
}

function describe(errno: number): readonly [string, string] {
  // libuv counts its own errors, which no kernel knows, from 3000 on.
  const words = errno < 3000 ? systemErrors.get(-errno) : undefined;
  return beyondLibuv.get(errno) ?? words ?? [`errno ${errno}`, 'the call failed'];
}

/** For `catch`, where it is as good if the file is not there. */
export function ignoreMissing(error: unknown): undefined {
  if (!isErrno(error, 'ENOENT')) throw error;
}
