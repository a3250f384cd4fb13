import { constants } from 'node:fs/promises';
import { type Descriptor, openFile, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type IoctlRequest, ioctl, ioctlNow, type LentMemory } from '../call/ioctl.ts';
import { invoke, libcCall } from '../call/libc.ts';
import { type DeviceNumber, packedNumber, sameDevice } from '../device.ts';
import { setRefusesWrites } from './block.ts';
import { diskFaultOf } from './disk-fault.ts';
import {
  decodeLoopInfo,
  encodeLoopConfig,
  type LoopInformation,
  loopInfoBytes,
  nameBackingFile,
} from './loop-layout.ts';
import { isAttached, loopBackingPaths, loopDevice, loopPath } from './loop-sysfs.ts';

/** A loop device that was just attached. */
export interface LoopDevice {
  readonly number: number;
  readonly devicePath: string;
  readonly device: DeviceNumber;
  /** Holds the device: with autoclear the kernel detaches it as soon as nothing has it open or mounted. */
  readonly descriptor: Descriptor;
}

/**
 * The kernel's state of an attached loop device (LOOP_GET_STATUS64 of loop(4)). The label was given at attach; it has
 * at most 63 bytes.
 */
export interface LoopStatus extends LoopInformation {
  readonly number: number;
  readonly devicePath: string;
  readonly device: DeviceNumber;
}

export interface LoopRequest {
  /** The file's path, or the open file: for reading and, unless `readonly`, for writing. An open file is closed. */
  readonly backing: string | Descriptor;
  readonly label: string;
  readonly readonly: boolean;
  readonly autoclear: boolean;
  readonly blockSizeBytes: number;
}

const LOOP_CLR_FD: IoctlRequest = { name: 'LOOP_CLR_FD', number: 0x4c01 };
const LOOP_GET_STATUS64: IoctlRequest = { name: 'LOOP_GET_STATUS64', number: 0x4c05 };
const LOOP_SET_CAPACITY: IoctlRequest = { name: 'LOOP_SET_CAPACITY', number: 0x4c07 };
const LOOP_CONFIGURE: IoctlRequest = { name: 'LOOP_CONFIGURE', number: 0x4c0a };
const LOOP_CTL_ADD: IoctlRequest = { name: 'LOOP_CTL_ADD', number: 0x4c80 };
const LOOP_CTL_GET_FREE: IoctlRequest = { name: 'LOOP_CTL_GET_FREE', number: 0x4c82 };

/** Number of tries: other processes attach loop devices too, and may take the free device before this process does. */
const attachAttempts = 128;

const mknodCall = libcCall<readonly [string, number, number]>(
  'int mknod(const char *path, uint mode, uint64_t device)',
);

let control: Promise<Descriptor> | undefined;

/** Opened at first use, which loads the kernel's loop module, and kept open: no disk is behind it. */
async function openControl(queue: DiskQueue): Promise<Descriptor> {
  control ??= openReadOnly(queue, '/dev/loop-control');
  try {
    return await control;
  } catch (error) {
    control = undefined;
    throw error;
  }
}

/** Numbers that calls of this process are attaching. The kernel offers the same free device to all callers. */
const claimed = new Set<number>();

/**
 * Attaches a file to a free loop device in one step (LOOP_CONFIGURE). So no program sees a half-configured device, and
 * none is left if the process dies. Uses direct I/O where the file allows it.
 */
export async function attachLoop(queue: DiskQueue, request: LoopRequest): Promise<LoopDevice> {
  await using backing =
    typeof request.backing === 'string'
      ? await openFile(queue, request.backing, accessFlags(request))
      : request.backing;
  const control = await openControl(queue);
  /** Another program may have a free device open exclusively: the kernel continues to offer it. */
  const busy = new Set<number>();
  for (let attempt = 1; ; attempt++) {
    // The kernel searches its list; at worst it sets up one more device in memory.
    let number = ioctlNow(control, LOOP_CTL_GET_FREE, 0);
    // An attached device is never opened: that would delay the autoclear of another volume's device.
    while (busy.has(number) || claimed.has(number) || isAttached(number)) number++;
    claimed.add(number);
    try {
      const descriptor = await configure(queue, control, number, backing, request);
      // The loop device has the file open now.
      backing.closeNow();
      return { number, devicePath: loopPath(number), device: loopDevice(number), descriptor };
    } catch (error) {
      // EBUSY: another process was faster, or holds it. ENXIO, ENOENT: another process has removed the device.
      if (!isErrno(error, 'EBUSY', 'ENXIO', 'ENOENT') || attempt === attachAttempts) throw error;
      busy.add(number);
    } finally {
      claimed.delete(number);
    }
  }
}

async function configure(
  queue: DiskQueue,
  control: Descriptor,
  number: number,
  backing: Descriptor,
  request: LoopRequest,
): Promise<Descriptor> {
  await using device = await openOrAdd(queue, control, number, accessFlags(request));
  const setUp = async (directIo: boolean) => {
    const config = encodeLoopConfig({ ...request, directIo });
    // The request names the file by its descriptor's number, which must stay open until the call has ended.
    const withFile: LentMemory = {
      lend: () => nameBackingFile(config, backing.lend()),
      giveBack: () => backing.giveBack(),
    };
    return await ioctl(queue, device, LOOP_CONFIGURE, withFile);
  };
  const attach = async () => {
    await unlessErrno('EINVAL', setUp(true), () => setUp(false));
    // The kernel keeps this mark with the device number, for the next file that is attached there.
    if (!request.readonly) setRefusesWrites(device, false);
  };
  const [configured, opened] = await Promise.allSettled([
    attach(),
    // Reopened for reading: a kernel may refuse to mount a device that is open for writing
    // (bdev_allow_write_mounted=0).
    openReadOnly(queue, device.path),
  ]);
  if (opened.status === 'rejected') {
    if (configured.status === 'fulfilled') await ioctl(queue, device, LOOP_CLR_FD, 0);
    throw opened.reason;
  }
  const descriptor = opened.value;
  if (configured.status === 'rejected') {
    await descriptor[Symbol.asyncDispose]();
    throw configured.reason;
  }
  device.closeNow();
  return descriptor;
}

/** Opens a loop device. Makes it if it does not exist yet, and its node where /dev is no devtmpfs. */
async function openOrAdd(queue: DiskQueue, control: Descriptor, number: number, flags: number): Promise<Descriptor> {
  const path = loopPath(number);
  try {
    return await openFile(queue, path, flags);
  } catch (error) {
    if (!isErrno(error, 'ENOENT', 'ENXIO')) throw error;
  }
  await unlessErrno('EEXIST', ioctl(queue, control, LOOP_CTL_ADD, number));
  const packed = Number(packedNumber(loopDevice(number)));
  await unlessErrno('EEXIST', invoke(queue, mknodCall, [path, constants.S_IFBLK | 0o660, packed], path));
  return openFile(queue, path, flags);
}

/**
 * The status of a loop device; undefined if it does not exist or no file is attached. Reading it needs the device open,
 * so an autoclear device whose last user ends at this moment lives until the read has ended.
 */
export async function loopStatus(queue: DiskQueue, number: number): Promise<LoopStatus | undefined> {
  try {
    await using descriptor = await openReadOnly(queue, loopPath(number));
    return await readStatus(queue, descriptor, number);
  } catch (error) {
    if (isErrno(error, 'ENXIO', 'ENOENT', 'ENODEV')) return undefined;
    throw error;
  }
}

async function readStatus(queue: DiskQueue, descriptor: Descriptor, number: number): Promise<LoopStatus> {
  const info = Buffer.alloc(loopInfoBytes);
  // On a worker thread: the kernel asks the backing file's filesystem for the inode number.
  await ioctl(queue, descriptor, LOOP_GET_STATUS64, info);
  return { number, devicePath: loopPath(number), device: loopDevice(number), ...decodeLoopInfo(info) };
}

/**
 * Opens a loop device that was found earlier, so that it stays: with autoclear its last user may end at any moment.
 * @returns undefined if it does not show that file any more
 */
export async function holdLoop(queue: DiskQueue, seen: LoopStatus): Promise<Descriptor | undefined> {
  const gone = ['ENXIO', 'ENOENT', 'ENODEV'];
  let hold: Descriptor;
  try {
    hold = await openReadOnly(queue, seen.devicePath);
  } catch (error) {
    if (isErrno(error, ...gone)) return undefined;
    throw error;
  }
  try {
    const now = await readStatus(queue, hold, seen.number);
    if (now.backingInode === seen.backingInode && sameDevice(now.backingDevice, seen.backingDevice)) return hold;
  } catch (error) {
    if (!isErrno(error, ...gone)) throw error;
  }
  await hold[Symbol.asyncDispose]();
  return undefined;
}

/**
 * Loop devices that have a backing file: all, or those that `isWanted` by the file's path. Others are not opened: an
 * open device cannot be detached, and would be in the way of its user. A device whose file lies on a failed disk is
 * left out: a caller that searches for its own device has had an error from that disk already.
 */
export async function listLoops(
  queue: DiskQueue,
  isWanted: (backingPath: string) => boolean = () => true,
): Promise<LoopStatus[]> {
  const paths = await loopBackingPaths(queue);
  const numbers = Array.from(paths).flatMap(([number, path]) => (isWanted(path) ? [number] : []));
  const statuses = await Promise.all(numbers.map((number) => loopStatus(queue, number).catch(nothingIfSick)));
  return statuses.filter((status) => status !== undefined);
}

/** For `loopStatus` of a device whose file lies on a dead filesystem, which answers the kernel with an error. */
export function nothingIfSick(error: unknown): undefined {
  if (diskFaultOf(error) === undefined) throw error;
}

/**
 * Detaches the file. If something still has the device open or mounted, the kernel sets autoclear instead and detaches
 * it after the last user (loop(4)); that is no error. Nothing attached is no error either.
 * @param isMeant checks that this is the right file: the number may have been given to another one since. It can read
 * the status, but not that of a file whose filesystem is dead
 */
export async function detachLoop(
  queue: DiskQueue,
  number: number,
  isMeant: (read: () => Promise<LoopStatus>) => Promise<boolean> = async () => true,
): Promise<void> {
  try {
    await using descriptor = await openReadOnly(queue, loopPath(number));
    // While it is open here, nothing else can be attached in its place.
    if (!(await isMeant(() => readStatus(queue, descriptor, number)))) return;
    // The mark would stay with the number, for the next device.
    setRefusesWrites(descriptor, false);
    await ioctl(queue, descriptor, LOOP_CLR_FD, 0);
  } catch (error) {
    if (!isErrno(error, 'ENXIO', 'ENOENT', 'ENODEV')) throw error;
  }
}

/** Updates the size of the device to that of its file. */
export async function refreshLoopSize(queue: DiskQueue, number: number): Promise<void> {
  await using descriptor = await openReadOnly(queue, loopPath(number));
  await ioctl(queue, descriptor, LOOP_SET_CAPACITY, 0);
}

function accessFlags({ readonly }: Pick<LoopRequest, 'readonly'>): number {
  return readonly ? constants.O_RDONLY : constants.O_RDWR;
}

async function unlessErrno(code: string, work: Promise<number>, otherwise = async () => 0): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isErrno(error, code)) throw error;
    await otherwise();
  }
}
