import { invokeNow, libcCall } from '../call/libc.ts';

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
