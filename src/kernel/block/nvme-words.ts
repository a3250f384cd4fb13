import { closeSync, constants, openSync, readSync } from 'node:fs';
import { isErrno } from '../call/errno.ts';
import { libcCall } from '../call/libc.ts';

/*
 * Messages of the kernel's NVMe driver. A refused connection returns EIO at most; the reason is in the kernel's log alone.
 */

const lseekCall = libcCall<readonly [number, bigint, number]>('int64_t lseek(int fd, int64_t offset, int whence)');
const SEEK_END = 2;
/** The largest record of /dev/kmsg (CONSOLE_EXT_LOG_MAX). */
const recordBytes = 8192;
const linesKept = 4;

/** Collects what the kernel says of NVMe from now on. Nothing if its log cannot be read. */
export class NvmeWords implements Disposable {
  readonly #fd: number | undefined;

  constructor() {
    try {
      this.#fd = openSync('/dev/kmsg', constants.O_RDONLY | constants.O_NONBLOCK);
      lseekCall.native(this.#fd, 0n, SEEK_END);
    } catch {
      // Words are a help; the connection does not need them.
      this.#fd = undefined;
    }
  }

  /** The last lines since then. Read from memory. */
  read(): readonly string[] {
    const lines: string[] = [];
    const memory = Buffer.alloc(recordBytes);
    while (this.#fd !== undefined) {
      try {
        const line = wordsIn(memory.toString('utf8', 0, readSync(this.#fd, memory)));
        if (line !== undefined) lines.push(line);
      } catch (error) {
        // Records that were overwritten before they were read are missing.
        if (isErrno(error, 'EPIPE')) continue;
        break;
      }
    }
    return lines.slice(-linesKept);
  }

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
  }
}

/**
 * The message of a record, if it is of the host side of NVMe: `6,339,5140900,-;nvme nvme0: …`. A message that may show a
 * key is left out (X01).
 */
export function wordsIn(record: string): string | undefined {
  const [head = '', ...rest] = record.split('\n')[0]?.split(';') ?? [];
  const message = rest.join(';').trim();
  if (!/^[0-9]+,/.test(head) || !/^nvme(_fabrics|_tcp)?[ :]/.test(message)) return undefined;
  return /dhchap|secret|DHHC/i.test(message) ? undefined : message.replace(/^nvme nvme[0-9]+: /, '');
}
