import { libcCall } from '../call/libc.ts';

const exitCall = libcCall<readonly [number]>('void _exit(int status)');

/**
 * Ends the process without waiting for its worker threads, which exit(3) does: one of them may wait for a disk that
 * hangs. Nothing is flushed.
 */
export function exitAtOnce(code: number): never {
  exitCall.native(code);
  throw new Error('unreachable');
}
