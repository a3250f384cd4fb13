import { libcCall } from '../call/libc.ts';

const mallocTrimCall = libcCall<readonly [number]>('int malloc_trim(size_t pad)');

/**
 * Returns free memory of glibc's heap to the kernel (malloc_trim(3)). V8's compilers and garbage collector leave
 * several MiB of it after the start and after a burst of calls. Takes about a millisecond.
 */
export function returnFreeMemory(): void {
  mallocTrimCall.native(0);
}
