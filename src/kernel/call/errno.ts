import { getSystemErrorMap } from 'node:util';

/** Error numbers of filesystems and block devices that libuv has no name for (errno(3), asm-generic/errno.h). */
const beyondLibuv: ReadonlyMap<number, readonly [string, string]> = new Map([
  [15, ['ENOTBLK', 'block device required']],
  [52, ['EBADE', 'the disk is reserved by another host']],
  [62, ['ETIME', 'the disk took too long']],
  [67, ['ENOLINK', 'the connection to the disk was lost']],
  [74, ['EBADMSG', 'bad message, or a checksum on the disk does not fit']],
  // libuv has names for these, but its messages speak of sockets and networks.
  [95, ['ENOTSUP', 'operation not supported']],
  [107, ['ENOTCONN', 'not connected']],
  [108, ['ESHUTDOWN', 'it has shut down']],
  [110, ['ETIMEDOUT', 'it timed out']],
  [116, ['ESTALE', 'stale file handle']],
  [117, ['EUCLEAN', 'the filesystem is damaged']],
  [122, ['EDQUOT', 'disk quota exceeded']],
  [123, ['ENOMEDIUM', 'no medium found']],
  [124, ['EMEDIUMTYPE', 'wrong medium type']],
  [129, ['EKEYREJECTED', 'key was rejected']],
]);

const systemErrors = getSystemErrorMap();

export interface KernelFailure {
  readonly syscall: string;
  readonly errno: number;
  readonly path?: string | undefined;
  readonly detail?: string | undefined;
}

/** A system call that the kernel refused. The message contains our paths, never a mount option's value (X02). */
export class KernelError extends Error {
  /** The name in its man page; for a call with commands, with the command: `fsconfig(FSCONFIG_CMD_CREATE)`. */
  readonly syscall: string;
  readonly errno: number;
  /** The name of `errno`: `ENOENT`. */
  readonly code: string;
  readonly path?: string;
  /** The filesystem's own message, if it gave one. */
  readonly detail?: string;

  constructor(failure: KernelFailure) {
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

/** All that another error of the same kind is made of. */
export function failureOf({ detail, errno, path, syscall }: KernelError): KernelFailure {
  return { detail, errno, path, syscall };
}

/** Answers if `error`, ours or Node's, is the kernel's and has one of these names. */
export function isErrno(error: unknown, ...codes: string[]): boolean {
  const name = errnoName(error);
  return name !== undefined && codes.includes(name);
}

/**
 * The name of the kernel's error number: `ENOENT`. Node's errors have a name only if libuv knows the number; `Unknown
 * system error -117`, a damaged filesystem, has only the number.
 */
export function errnoName(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if ('errno' in error && typeof error.errno === 'number') {
    const name = beyondLibuv.get(Math.abs(error.errno))?.[0];
    if (name !== undefined) return name;
  }
  return 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

function describe(errno: number): readonly [string, string] {
  // libuv counts its own errors, which no kernel knows, from 3000 on.
  const words = errno < 3000 ? systemErrors.get(-errno) : undefined;
  return beyondLibuv.get(errno) ?? words ?? [`errno ${errno}`, 'the call failed'];
}

/** For `catch`, where a missing file is no error. */
export function ignoreMissing(error: unknown): undefined {
  if (!isErrno(error, 'ENOENT')) throw error;
}
