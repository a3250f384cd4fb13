import { invokeNow, libcCall } from '../call/libc.ts';

const exitCall = libcCall<readonly [number]>('void _exit(int status)');

/**
 * Ends the process without waiting for its worker threads: one of them may wait for a disk that hangs, and exit(3)
 * would wait for it. Nothing is flushed.
 */
export function exitAtOnce(code: number): never {
  exitCall.native(code);
  throw new Error('unreachable');
}

const mallocTrimCall = libcCall<readonly [number]>('int malloc_trim(size_t pad)');

/**
 * Returns free memory of glibc's heap to the kernel (malloc_trim(3)). V8's compilers and garbage collector leave
 * several MiB of it after the start and after a burst of calls. Takes about a millisecond.
 */
export function returnFreeMemory(): void {
  mallocTrimCall.native(0);
}

const RLIMIT_CORE = 4;
/**
 * A limit of 1 byte instead of 0: it also keeps core dumps from a program that collects them (core(5); umh_pipe_setup
 * of fs/coredump.c).
 */
const minBytes = 1n;

const prlimitCall = libcCall<readonly [number, number, Uint8Array, null]>(
  'int prlimit(int pid, int resource, void *limits, void *old)',
);

/** Keeps the memory of this process, and of programs that it starts, out of core dumps from now on. */
export function refuseCoreDumps(): void {
  const limits = Buffer.alloc(16);
  limits.writeBigUInt64LE(minBytes, 0);
  limits.writeBigUInt64LE(minBytes, 8);
  invokeNow(prlimitCall, [0, RLIMIT_CORE, limits, null]);
}
