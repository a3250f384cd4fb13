import { libcCall } from '../call/libc.ts';

const exitCall = libcCall<readonly [number]>('void _exit(int status)');

/**
 * Ends the process without waiting for its worker threads: one of them may wait for a disk that hangs, and exit(3)
 * would wait for it. Nothing is flushed.
 */
export function exitAtOnce(code: number): never {
  exitCall.native(code);
  throw new Error('unreachable');
}
