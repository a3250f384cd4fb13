import koffi, { type LibraryHandle } from 'koffi';
import type { DiskQueue } from './disk-queue.ts';
import { KernelError } from './errno.ts';

/** Argument types of C functions: numbers, strings (copied as UTF-8), memory, and pointers. */
type Plain = number | bigint | string | Uint8Array | null;

/**
 * An argument that names a descriptor by its number, or by a path below /proc/self/fd. Once closed, the number may mean
 * another file. So it stays open until the call has ended, even if its caller has stopped waiting.
 */
export interface Lent {
  /** @throws if it is closed already; then it need not be released */
  lend(): Plain;
  giveBack(): void;
}

export type Argument = Plain | Lent;

/** A C function, declared once. */
export interface NativeCall<A extends readonly Argument[]> {
  /** The name of the system call in its man page, for errors. */
  readonly name: string;
  readonly native: ReturnType<LibraryHandle['func']>;
  /** Constant arguments: the number of a system call. */
  readonly leading: readonly number[];
  /** Argument types. Exists only in the type. */
  readonly takes?: (...args: A) => void;
}

// Must come before the first library is loaded. The limit of calls in flight is far above the limits of the queues.
// libblkid needs the large stack; memory is taken only as it is touched. The number of stacks kept between calls is for
// all worker threads: making and freeing one costs more than most calls.
koffi.config({ async_stack_size: 256 * 1024, resident_async_pools: 32, max_async_calls: 4096 });

const libc = koffi.load('libc.so.6');

/**
 * Declares a function of libc by its C prototype. Variadic ones (open, ioctl, fcntl, syscall) are declared with the
 * arguments that we pass: koffi calls variadic functions only synchronously, and the calling conventions of x86_64
 * (without floating point) and of arm64 on Linux pass integers and pointers to both kinds alike.
 */
export function libcCall<A extends readonly Argument[]>(prototype: string): NativeCall<A> {
  return libraryCall(libc, prototype);
}

/** Declares a function of any library. */
export function libraryCall<A extends readonly Argument[]>(library: LibraryHandle, prototype: string): NativeCall<A> {
  const native = library.func(prototype);
  return { name: native.info.name, native, leading: [] };
}

/**
 * Declares a system call that glibc has no function for, by its number. From 424 on, x86_64 and arm64 share the
 * numbers.
 */
export function systemCall<A extends readonly Argument[]>(
  name: string,
  number: number,
  types: readonly string[],
): NativeCall<A> {
  return { name, native: libc.func('syscall', 'long', ['long', ...types]), leading: [number] };
}

/** koffi holds no reference to the memory of a call's arguments, so this keeps the garbage collector from it. */
const inFlight = new Set<readonly Plain[]>();

/** A C function's return value, and its errno. */
export interface Returned {
  readonly result: unknown;
  readonly errno: number;
}

/**
 * Calls `call` on a worker thread.
 * @param onLate as in `DiskQueue.run`: gets the result if the caller has stopped waiting
 */
export function callLater<A extends readonly Argument[]>(
  queue: DiskQueue,
  call: NativeCall<A>,
  args: A,
  onLate?: (returned: Returned) => void,
): Promise<Returned> {
  return queue.run(() => callOnWorker(call, args), onLate);
}

let isHere = false;

/** From now on all calls of this thread are made on it: it waits for nothing else (`thread.ts`). */
export function callHere(): void {
  isHere = true;
}

/** For callers that have a place in a queue already. */
export function callOnWorker<A extends readonly Argument[]>(call: NativeCall<A>, args: A): Promise<Returned> {
  return new Promise((resolve, reject) => {
    if (isHere) return resolve(callNow(call, args));
    refuseNul(call.name, args);
    const plain = lendAll(args);
    const ended = () => {
      inFlight.delete(plain);
      giveAllBack(args);
    };
    inFlight.add(plain);
    try {
      call.native.async(...call.leading, ...plain, (error: unknown, result: unknown) => {
        // Read first: koffi restores the call's errno for this callback only.
        const errno = koffi.errno();
        ended();
        if (error === null) resolve({ result, errno });
        else reject(error);
      });
    } catch (error) {
      ended();
      reject(error);
    }
  });
}

/** Lends all of them or none. */
function lendAll(args: readonly Argument[]): Plain[] {
  const plain: Plain[] = [];
  try {
    for (const argument of args) plain.push(isLent(argument) ? argument.lend() : argument);
  } catch (error) {
    giveAllBack(args.slice(0, plain.length));
    throw error;
  }
  return plain;
}

function giveAllBack(args: readonly Argument[]): void {
  for (const argument of args) if (isLent(argument)) argument.giveBack();
}

function isLent(argument: Argument): argument is Lent {
  return typeof argument === 'object' && argument !== null && 'lend' in argument;
}

/** Calls `call` on a worker thread. @throws KernelError if it returns a negative number */
export async function invoke<A extends readonly Argument[]>(
  queue: DiskQueue,
  call: NativeCall<A>,
  args: A,
  path?: string,
  onLate?: (returned: Returned) => void,
): Promise<number> {
  const { result, errno } = await callLater(queue, call, args, onLate);
  return checked(call.name, result, errno, path);
}

/** Calls `call` on this thread: only for calls that never wait for a disk, nor for a lock whose holder may. */
export function invokeNow<A extends readonly Argument[]>(call: NativeCall<A>, args: A, path?: string): number {
  const { result, errno } = callNow(call, args);
  return checked(call.name, result, errno, path);
}

/**
 * The same for a call that is often refused: to throw takes longer than the call.
 * @param refusals the errno of each refusal that is expected
 * @returns the negative errno if it was refused so
 */
export function invokeNowUnless<A extends readonly Argument[]>(
  refusals: readonly number[],
  call: NativeCall<A>,
  args: A,
  path?: string,
): number {
  const { result, errno } = callNow(call, args);
  return result === -1 && refusals.includes(errno) ? -errno : checked(call.name, result, errno, path);
}

function callNow<A extends readonly Argument[]>(call: NativeCall<A>, args: A): Returned {
  refuseNul(call.name, args);
  const plain = lendAll(args);
  try {
    return { result: call.native(...call.leading, ...plain), errno: koffi.errno() };
  } finally {
    giveAllBack(args);
  }
}

function checked(syscall: string, result: unknown, errno: number, path: string | undefined): number {
  if (typeof result !== 'number') throw new TypeError(`${syscall} returned a ${typeof result}`);
  if (result < 0) throw new KernelError({ syscall, errno, path });
  return result;
}

/** C ends a string at its first NUL, so a path with one would silently become another path. */
function refuseNul(syscall: string, args: readonly Argument[]): void {
  for (const argument of args) {
    if (typeof argument === 'string' && argument.includes('\0')) {
      throw new KernelError({ syscall, errno: 22, detail: 'an argument contains a NUL character' });
    }
  }
}
