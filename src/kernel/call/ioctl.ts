import { Descriptor, invokeToOpen } from './descriptor.ts';
import type { DiskQueue } from './disk-queue.ts';
import { invoke, invokeNow, type Lent, libcCall, type NativeCall } from './libc.ts';

/** A request of ioctl(2): its name for errors, and its number (the same on x86_64 and arm64). */
export interface IoctlRequest {
  readonly name: string;
  readonly number: number;
}

/** Memory, or a number. */
export type IoctlArgument = Uint8Array | number | LentMemory | Descriptor;

/** Memory that names a descriptor, filled in when the call begins. */
export interface LentMemory extends Lent {
  lend(): Uint8Array;
}

type IoctlCall = NativeCall<readonly [Lent, number, IoctlArgument]>;

const withMemory: IoctlCall = libcCall('int ioctl(int fd, ulong request, void *argument)');
const withNumber: IoctlCall = libcCall('int ioctl(int fd, ulong request, long argument)');

/** ioctl(2) on a worker thread. */
export function ioctl(
  queue: DiskQueue,
  descriptor: Descriptor,
  request: IoctlRequest,
  argument: IoctlArgument,
): Promise<number> {
  return invoke(queue, callFor(request, argument), [descriptor, request.number, argument], descriptor.path);
}

/** ioctl(2) on a worker thread, for a request whose result is a descriptor. `path` is that of the opened file. */
export async function ioctlToOpen(
  queue: DiskQueue,
  descriptor: Descriptor,
  request: IoctlRequest,
  argument: Uint8Array,
  path: string,
): Promise<Descriptor> {
  const fd = await invokeToOpen(queue, callFor(request, argument), [descriptor, request.number, argument], path);
  return new Descriptor(fd, path, queue);
}

/** ioctl(2) on this thread, for requests that only read from memory. */
export function ioctlNow(descriptor: Descriptor, request: IoctlRequest, argument: Uint8Array | number): number {
  return invokeNow(callFor(request, argument), [descriptor, request.number, argument], descriptor.path);
}

function callFor(request: IoctlRequest, argument: IoctlArgument): IoctlCall {
  const isNumber = typeof argument === 'number' || argument instanceof Descriptor;
  return { ...(isNumber ? withNumber : withMemory), name: `ioctl(${request.name})` };
}
