import { Descriptor } from '../call/descriptor.ts';
import { isErrno } from '../call/errno.ts';
import { invokeNow, type Lent, libcCall } from '../call/libc.ts';

const MFD_CLOEXEC = 1;
const MFD_ALLOW_SEALING = 2;
const MFD_NOEXEC_SEAL = 8;
const F_ADD_SEALS = 1033;
const F_SEAL_SHRINK = 2;
const F_SEAL_GROW = 4;
const SEEK_CUR = 1;

const memfdCall = libcCall<readonly [string, number]>('int memfd_create(const char *name, uint flags)');
const ftruncateCall = libcCall<readonly [Lent, bigint]>('int ftruncate(int fd, int64_t length)');
const fcntlCall = libcCall<readonly [Lent, number, number]>('int fcntl(int fd, int command, long argument)');
const lseekCall = libcCall<readonly [Lent, number, number]>('long lseek(int fd, int64_t offset, int whence)');
const preadCall = libcCall<readonly [Lent, Uint8Array, number, number]>(
  'long pread(int fd, void *memory, size_t size, int64_t offset)',
);

/**
 * A file in memory that somebody else writes to, from its beginning and never past its limit (memfd_create(2)). Nothing
 * here waits for a disk. Memory is taken only for what is written.
 */
export class MemoryFile implements Disposable {
  readonly #descriptor: Descriptor;

  constructor(name: string, limitBytes: number) {
    this.#descriptor = new Descriptor(create(name), name, undefined);
    invokeNow(ftruncateCall, [this.#descriptor, BigInt(limitBytes)], name);
    // Who writes past the end gets EPERM.
    invokeNow(fcntlCall, [this.#descriptor, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK], name);
  }

  /** Does something with its number, which is its own until that is done. */
  during<T>(work: (fd: number) => Promise<T>): Promise<T> {
    return this.#descriptor.during((_, fd) => work(fd));
  }

  /** What was written. Who has a copy of the descriptor shares its position, so that tells how much it is. */
  text(): string {
    const bytes = invokeNow(lseekCall, [this.#descriptor, 0, SEEK_CUR], this.#descriptor.path);
    const memory = Buffer.alloc(bytes);
    if (bytes > 0) invokeNow(preadCall, [this.#descriptor, memory, bytes, 0], this.#descriptor.path);
    return memory.toString('utf8');
  }

  [Symbol.dispose](): void {
    this.#descriptor.closeNow();
  }
}

/** Never to be executed, as some nodes insist (sysctl vm.memfd_noexec); kernels before 6.3 know no such flag. */
function create(name: string): number {
  const flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  try {
    return invokeNow(memfdCall, [name, flags | MFD_NOEXEC_SEAL]);
  } catch (error) {
    if (!isErrno(error, 'EINVAL')) throw error;
    return invokeNow(memfdCall, [name, flags]);
  }
}
