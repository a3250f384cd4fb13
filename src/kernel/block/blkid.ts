import koffi from 'koffi';
import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { KernelError } from '../call/errno.ts';
import { type Argument, callOnWorker, invokeNow, libraryCall, type NativeCall } from '../call/libc.ts';

/** The content of a device or an image, as far as libblkid recognises it. */
export type Content =
  /** No signature that libblkid knows. */
  | { readonly kind: 'blank' }
  | { readonly kind: 'filesystem'; readonly type: string; readonly uuid: string | undefined }
  | { readonly kind: 'partitions'; readonly type: string }
  /** LUKS, LVM, RAID, swap, …; `type` is the name of blkid(8). */
  | { readonly kind: 'other'; readonly type: string }
  /** Signatures that contradict each other. */
  | { readonly kind: 'ambivalent' };

const BLKID_SUBLKS_UUID = 1 << 3;
const BLKID_SUBLKS_TYPE = 1 << 5;
const BLKID_SUBLKS_USAGE = 1 << 7;
/** A superblock with a wrong checksum may still belong to data, and does not make the device blank. */
const BLKID_SUBLKS_BADCSUM = 1 << 10;
const superblockFlags = BLKID_SUBLKS_TYPE | BLKID_SUBLKS_UUID | BLKID_SUBLKS_USAGE | BLKID_SUBLKS_BADCSUM;

const nothingFound = 1;
const ambivalent = -2;
const EIO = 5;

/** Loaded at first use, so that a machine without libblkid can still report that. */
let loaded: ReturnType<typeof load> | undefined;

function load() {
  const library = koffi.load('libblkid.so.1');
  return {
    open: libraryCall<readonly [string]>(library, 'void *blkid_new_probe_from_filename(const char *path)'),
    create: libraryCall<readonly []>(library, 'void *blkid_new_probe()'),
    setDevice: libraryCall<readonly [bigint, number, bigint, bigint]>(
      library,
      'int blkid_probe_set_device(void *probe, int fd, int64_t offset, int64_t size)',
    ),
    free: libraryCall<readonly [bigint]>(library, 'void blkid_free_probe(void *probe)'),
    enableSuperblocks: libraryCall<readonly [bigint, number]>(
      library,
      'int blkid_probe_enable_superblocks(void *probe, int enable)',
    ),
    setSuperblockFlags: libraryCall<readonly [bigint, number]>(
      library,
      'int blkid_probe_set_superblocks_flags(void *probe, int flags)',
    ),
    enablePartitions: libraryCall<readonly [bigint, number]>(
      library,
      'int blkid_probe_enable_partitions(void *probe, int enable)',
    ),
    probe: libraryCall<readonly [bigint]>(library, 'int blkid_do_safeprobe(void *probe)'),
    lookup: library.func(
      'int blkid_probe_lookup_value(void *probe, const char *name, _Out_ const char **value, void *length)',
    ),
  };
}

/**
 * Searches a device or file for filesystems, other superblocks and partition tables. Uses no cache: it reads the disk
 * each time (blkid_do_safeprobe of libblkid).
 */
export function probeContent(queue: DiskQueue, path: string): Promise<Content> {
  loaded ??= load();
  const blkid = loaded;
  // One piece of work: the device is closed in any case, and only after the probe.
  return queue.run(() => probeOnWorker(blkid, path));
}

/** The same for a part of an open device, as if it were a separate device. */
export function probePart(
  queue: DiskQueue,
  device: Descriptor,
  { lengthBytes, offsetBytes }: { readonly lengthBytes: bigint; readonly offsetBytes: bigint },
): Promise<Content> {
  loaded ??= load();
  const blkid = loaded;
  return queue.run(() =>
    device.during(async (path, fd) => {
      const probe = await newProbe(blkid.create, [], path);
      return await probeWith(blkid, probe, path, async () => {
        const { result } = await callOnWorker(blkid.setDevice, [probe, fd, offsetBytes, lengthBytes]);
        if (result !== 0) throw new KernelError({ syscall: blkid.setDevice.name, errno: EIO, path });
      });
    }),
  );
}

async function newProbe<A extends readonly Argument[]>(call: NativeCall<A>, args: A, path: string): Promise<bigint> {
  const { result, errno } = await callOnWorker(call, args);
  if (typeof result === 'bigint') return result;
  throw new KernelError({ syscall: call.name, errno: errno || EIO, path });
}

async function probeOnWorker(blkid: ReturnType<typeof load>, path: string): Promise<Content> {
  return probeWith(blkid, await newProbe(blkid.open, [path], path), path, async () => undefined);
}

async function probeWith(
  blkid: ReturnType<typeof load>,
  probe: bigint,
  path: string,
  prepare: () => Promise<void>,
): Promise<Content> {
  try {
    await prepare();
    invokeNow(blkid.enableSuperblocks, [probe, 1], path);
    invokeNow(blkid.setSuperblockFlags, [probe, superblockFlags], path);
    invokeNow(blkid.enablePartitions, [probe, 1], path);
    const { result } = await callOnWorker(blkid.probe, [probe]);
    if (result === ambivalent) return { kind: 'ambivalent' };
    if (result === nothingFound) return { kind: 'blank' };
    if (result !== 0) throw new KernelError({ syscall: blkid.probe.name, errno: EIO, path });
    return describe((name) => {
      const value: unknown[] = [null];
      return blkid.lookup(probe, name, value, null) === 0 && typeof value[0] === 'string' ? value[0] : undefined;
    });
  } finally {
    // Closes the device, which may have to wait for it.
    await callOnWorker(blkid.free, [probe]);
  }
}

function describe(lookUp: (name: string) => string | undefined): Content {
  const type = lookUp('TYPE');
  if (type === undefined) return { kind: 'partitions', type: lookUp('PTTYPE') ?? 'unknown' };
  return lookUp('USAGE') === 'filesystem'
    ? { kind: 'filesystem', type, uuid: lookUp('UUID') }
    : { kind: 'other', type };
}
