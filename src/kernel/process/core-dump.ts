import { invokeNow, libcCall } from '../call/libc.ts';

const RLIMIT_CORE = 4;
/**
 * A limit of 1 byte, and not of 0: with that nothing goes to a file, and nothing to a program that collects core dumps
 * either (core(5); umh_pipe_setup of fs/coredump.c).
 */
const leastBytes = 1n;

const prlimitCall = libcCall<readonly [number, number, Uint8Array, null]>(
  'int prlimit(int pid, int resource, void *limits, void *old)',
);

/** From now on nothing of this process's memory, nor of programs that it starts, gets into a core dump. */
export function refuseCoreDumps(): void {
  const limits = Buffer.alloc(16);
  limits.writeBigUInt64LE(leastBytes, 0);
  limits.writeBigUInt64LE(leastBytes, 8);
  invokeNow(prlimitCall, [0, RLIMIT_CORE, limits, null]);
}
