import type { Descriptor } from './descriptor.ts';
import type { Lane } from './lane.ts';
import { invoke, invokeNow, libcCall, type NativeCall } from './libc.ts';

/** A request of ioctl(2): its name for errors, and its number (the same on x86_64 and arm64). */
export interface IoctlRequest {
  readonly name: string;
  readonly number: number;
}

const withMemory = libcCall<readonly [number, number, Uint8Array]>('int ioctl(int fd, ulong request, void *argument)');
const withNumber = libcCall<readonly [number, number, number]>('int ioctl(int fd, ulong request, long argument)');

/** ioctl(2) on a worker thread. */
export function ioctl(
  lane: Lane,
  descriptor: Descriptor,
  request: IoctlRequest,
  argument: Uint8Array | number,
): Promise<number> {
  return typeof argument === 'number'
    ? invoke(lane, named(withNumber, request), [descriptor.fd, request.number, argument], descriptor.path)
    : invoke(lane, named(withMemory, request), [descriptor.fd, request.number, argument], descriptor.path);
}

/** ioctl(2) here and now, for requests that only look something up. */
export function ioctlNow(descriptor: Descriptor, request: IoctlRequest, argument: Uint8Array | number): number {
  return typeof argument === 'number'
    ? invokeNow(named(withNumber, request), [descriptor.fd, request.number, argument], descriptor.path)
    : invokeNow(named(withMemory, request), [descriptor.fd, request.number, argument], descriptor.path);
}

function named<A extends readonly (number | Uint8Array)[]>(call: NativeCall<A>, request: IoctlRequest): NativeCall<A> {
  return { ...call, name: `ioctl(${request.name})` };
}
