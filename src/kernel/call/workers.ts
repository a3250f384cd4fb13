import { readdirSync } from 'node:fs';
import { libcCall, type NativeCall } from './libc.ts';

const setenvCall: NativeCall<readonly [string, string, number]> = libcCall(
  'int setenv(const char *name, const char *value, int overwrite)',
);
const getenvCall = libcCall<readonly [string]>('const char *getenv(const char *name)');
const getpidCall = libcCall<readonly []>('int getpid(void)');

const sizeVariable = 'UV_THREADPOOL_SIZE';
const libuvDefault = 4;

/** The number of worker threads for blocking calls: the true number once `useWorkerThreads` was called. */
export let workerThreads = libuvDefault;
let isKnown = false;

/**
 * Asks libuv for this many worker threads and returns their true number. Must be called before anything else uses them:
 * libuv reads its variable once, at the first use. Node before 22.18, and 24 before 24.3, loads modules with them, so
 * there the environment at the start decides; otherwise there are 4. A second call changes nothing.
 */
export function useWorkerThreads(count: number): number {
  if (isKnown) return workerThreads;
  isKnown = true;
  const fromStart: unknown = getenvCall.native(sizeVariable);
  setenvCall.native(sizeVariable, String(count), 1);
  const before = threadCount();
  // The first piece of work starts all threads before it is queued.
  getpidCall.native.async(() => {});
  const started = threadCount() - before;
  workerThreads = started > 0 ? started : startedWith(fromStart);
  return workerThreads;
}

function startedWith(value: unknown): number {
  const count = typeof value === 'string' ? Number.parseInt(value, 10) : libuvDefault;
  // The rules of libuv: text that is no number means one thread, and there are at most 1024.
  return Math.min(1024, Math.max(1, Number.isNaN(count) ? 1 : count));
}

function threadCount(): number {
  return readdirSync('/proc/self/task').length;
}
