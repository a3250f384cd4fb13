import { constants } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { readIfThere, resizeFile, syncFile, writeAt } from '../../../kernel/file/file.ts';
import { tryLock } from '../../../kernel/process/lock.ts';
import { Unavailable } from '../../../volume/errors.ts';
import { pause } from '../../../volume/flow/pause.ts';
import type { OpenContext } from '../../kind.ts';
import { PoolHeld } from '../../location/lock.ts';
import { DiskLost } from '../../quarantine.ts';
import { lockFileName } from '../../records/layout.ts';

export interface ExportLockOptions extends Pick<OpenContext, 'queue' | 'lockTimeoutMs' | 'log' | 'stopping'> {
  readonly poolName: string;
  /** The pool's own directory. */
  readonly root: string;
  /** Distinguishes this opening from all others. */
  readonly token: string;
}

const retryMs = 500;

/**
 * The lock on a pool on NFS: flock(2), which the client makes a lock of the whole file that the server holds (flock(2), NFS).
 * The server lets it go when its holder has not been heard of for the time of its lease; a holder that comes back
 * after that has lost it, which `check` finds out.
 */
export class ExportLock {
  readonly #file: Descriptor;
  readonly #text: string;
  readonly #options: ExportLockOptions;

  private constructor(file: Descriptor, text: string, options: ExportLockOptions) {
    this.#file = file;
    this.#text = text;
    this.#options = options;
  }

  /** Waits for another driver to let the pool go. @throws PoolHeld, Unavailable once this driver is stopping */
  static async take(options: ExportLockOptions): Promise<ExportLock> {
    const { lockTimeoutMs, log, poolName, queue, root, stopping, token } = options;
    const path = join(root, lockFileName);
    const file = await openFile(queue, path, constants.O_RDWR | constants.O_CREAT, 0o600);
    try {
      const giveUpAt = Date.now() + lockTimeoutMs;
      for (let isTold = false; !(await tryLock(queue, file)); isTold = true) {
        if (stopping?.aborted)
          throw new Unavailable(`pool ${poolName} is not opened any more: the driver is stopping.`);
        const holder = await readHolder(queue, path);
        if (Date.now() >= giveUpAt) {
          throw new PoolHeld(
            `pool ${poolName} is held by ${holder}. Only one driver can run a pool. If that one is gone, its server lets the pool go after the time of its lease (90 s on Linux); this is tried again.`,
          );
        }
        if (!isTold) log?.warn({ pool: poolName, held_by: holder }, 'waiting for another driver to let a pool go');
        await pause(retryMs, stopping);
      }
      const text = `${JSON.stringify({ host: hostname(), pid: process.pid, since: new Date().toISOString(), token })}\n`;
      const lock = new ExportLock(file, text, options);
      await lock.#write();
      return lock;
    } catch (error) {
      await file[Symbol.asyncDispose]();
      throw error;
    }
  }

  /**
   * Answers if the pool is still this driver's. The kernel refuses a write to a file whose lock the server has let go; on
   * a server that does not, the name of the next holder is in it.
   * @throws DiskLost
   */
  async check(queue: DiskQueue): Promise<void> {
    const { poolName, root } = this.#options;
    const text = await readIfThere(queue, join(root, lockFileName));
    if (text !== this.#text) {
      const holder = text === undefined ? 'no driver: its file lock is gone' : describe(text);
      throw new DiskLost(`pool ${poolName}: its lock was lost, and is held by ${holder}.`);
    }
    try {
      await writeAt(queue, this.#file, Buffer.from(this.#text), 0n);
      await syncFile(queue, this.#file);
    } catch (error) {
      if (isErrno(error, 'ENOSPC', 'EDQUOT')) return;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file[Symbol.asyncDispose]();
  }

  async #write(): Promise<void> {
    const { queue } = this.#options;
    await resizeFile(queue, this.#file, 0n);
    await writeAt(queue, this.#file, Buffer.from(this.#text), 0n);
    await syncFile(queue, this.#file);
  }
}

async function readHolder(queue: DiskQueue, path: string): Promise<string> {
  return describe((await readIfThere(queue, path)) ?? '');
}

function describe(text: string): string {
  try {
    const holder: unknown = JSON.parse(text);
    if (typeof holder === 'object' && holder !== null && 'host' in holder && 'since' in holder) {
      return `the driver on ${String(holder.host).slice(0, 64)} since ${String(holder.since).slice(0, 32)}`;
    }
  } catch {
    // Just taken, or of a full server.
  }
  return 'another driver';
}
