import { access, mkdir, readdir, readFile, rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Openable } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';
import { freeze, thaw } from '../../kernel/mount/freeze.ts';
import { bootId } from '../../kernel/process/boot-id.ts';
import { fileNameOf, type VolumeHandle } from '../../volume/handle.ts';
import { parseVolumeId, type VolumeId } from '../../volume/id.ts';
import type { PoolLog } from '../log.ts';

/** A filesystem that the driver may freeze: a volume's, or the one that the pool itself lies on. */
export type Frozen = VolumeHandle | 'pool';

/** Reasons to keep a note: a freeze stands, or some are under way. */
interface Need {
  isFrozen: boolean;
  underWay: number;
}

/** The notes that this process needs, by their paths. */
const needed = new Map<string, Need>();

/**
 * The one place that freezes a pool's filesystems and thaws them. The kernel does not tell which program froze a
 * filesystem, and a backup's hook may have done so. A note in the driver's own directory therefore stands for each
 * freeze of the driver for as long as it lasts: after a kill -9 the next start thaws filesystems with a note, and
 * nothing else. A freeze ends with the boot, so a note needs no fsync, and one of an earlier boot means nothing. The
 * node's own disk may be full or read-only: then there is a freeze without a note, because a snapshot is needed most on
 * such a node.
 */
export class Freezes {
  readonly #directory: string;
  readonly #poolName: string;
  readonly #log: Pick<PoolLog, 'warn'> | undefined;

  constructor(dataDirectory: string, poolName: string, log?: Pick<PoolLog, 'warn'>) {
    this.#directory = join(dataDirectory, 'frozen');
    this.#poolName = poolName;
    this.#log = log;
  }

  /** @returns held: another program has frozen it already, and has to thaw it */
  async freeze(queue: DiskQueue, what: Frozen, filesystem: Openable): Promise<'frozen' | 'held'> {
    const need = this.#needOf(what);
    need.underWay++;
    try {
      await this.#note(queue, what);
      await freeze(queue, filesystem);
      need.isFrozen = true;
      need.underWay--;
      return 'frozen';
    } catch (error) {
      need.underWay--;
      await this.#forgetUnneeded(queue, what);
      if (isErrno(error, 'EBUSY')) return 'held';
      throw error;
    }
  }

  /** Ends a freeze of the driver. @returns whether it was frozen until now */
  async thaw(queue: DiskQueue, what: Frozen, filesystem: Openable): Promise<boolean> {
    const wasFrozen = await thaw(queue, filesystem);
    this.#needOf(what).isFrozen = false;
    await this.#forgetUnneeded(queue, what);
    return wasFrozen;
  }

  #needOf(what: Frozen): Need {
    const path = this.#path(what);
    const need = needed.get(path) ?? { isFrozen: false, underWay: 0 };
    needed.set(path, need);
    return need;
  }

  /** A freeze that was refused may have been for one of this driver, whose note this is as well. */
  async #forgetUnneeded(queue: DiskQueue, what: Frozen): Promise<void> {
    const { isFrozen, underWay } = this.#needOf(what);
    if (isFrozen || underWay > 0) return;
    needed.delete(this.#path(what));
    await this.forget(queue, what);
  }

  /** Freezes a filesystem for a moment, which empties its log. So does another program's freeze. */
  async briefly(queue: DiskQueue, what: Frozen, filesystem: Openable): Promise<void> {
    if ((await this.freeze(queue, what, filesystem)) === 'frozen') await this.thaw(queue, what, filesystem);
  }

  /** True if the driver died while it had this one frozen, or was about to. */
  async isLeft(queue: DiskQueue, what: Frozen): Promise<boolean> {
    const booted = `${bootId()}\n`;
    const noted = await this.#read(queue, this.#path(what));
    return noted !== undefined && noted === booted;
  }

  /**
   * The text of a note. The notes lie on the node's own disk: the pool's may be well when that fails, so its queue does not
   * hear of the failure.
   */
  async #read(queue: DiskQueue, path: string): Promise<string | undefined> {
    return await queue.run(() => readFile(path, 'utf8').catch((error: unknown) => this.#passOver(error, path)));
  }

  #passOver(error: unknown, path: string): undefined {
    if (isErrno(error, 'ENOENT')) return;
    this.#log?.warn(
      { pool: this.#poolName, path, err: error },
      'cannot read the note of a freeze: it counts as missing',
    );
  }

  /** The volumes for which there are notes. */
  async noted(queue: DiskQueue): Promise<VolumeId[]> {
    const names = (await queue.run(() => readdir(this.#directory)).catch(ignoreMissing)) ?? [];
    const prefix = `${this.#poolName}.`;
    return names.flatMap((name) => {
      const id = name.startsWith(prefix) ? parseVolumeId(name.slice(prefix.length)) : undefined;
      return id === undefined ? [] : [id];
    });
  }

  async #note(queue: DiskQueue, what: Frozen): Promise<void> {
    try {
      await this.#write(queue, this.#path(what), `${bootId()}\n`);
    } catch (error) {
      if (queue.closedFor !== undefined) throw error;
      this.#log?.warn(
        { pool: this.#poolName, what, err: error },
        'cannot note a freeze: if the driver were killed now, the filesystem would stay frozen (fsfreeze --unfreeze)',
      );
    }
  }

  async #write(queue: DiskQueue, path: string, text: string): Promise<void> {
    await queue.run(async () => {
      const write = () => writeFile(path, text, { mode: 0o600 });
      await write().catch(async (error) => {
        if (!isErrno(error, 'ENOENT')) throw error;
        await mkdir(this.#directory, { recursive: true, mode: 0o700 });
        await write();
      });
    });
  }

  /** Nothing is frozen for this note any more. It cannot be removed from a disk that is read-only. */
  async forget(queue: DiskQueue, what: Frozen): Promise<void> {
    await queue
      .run(() => unlink(this.#path(what)))
      .catch(ignoreMissing)
      .catch((error) => {
        if (queue.closedFor !== undefined) throw error;
        this.#log?.warn({ pool: this.#poolName, what, err: error }, 'cannot remove the note of a freeze');
      });
  }

  /**
   * True if all freezes of this driver have notes. Earlier drivers made none, and ended every freeze at their start:
   * so must the first start after them. Where that cannot be read, it is not the first start.
   */
  async areNoted(queue: DiskQueue): Promise<boolean> {
    const isThere = (error: unknown) => !isErrno(error, 'ENOENT');
    return await queue.run(() => access(this.#sincePath).then(() => true, isThere));
  }

  /** @returns false on a disk that is full or read-only: there each start would be the first one */
  async canNoteAll(queue: DiskQueue): Promise<boolean> {
    try {
      await this.#write(queue, this.#newSincePath, '');
      return true;
    } catch (error) {
      if (queue.closedFor !== undefined) throw error;
      this.#log?.warn(
        { pool: this.#poolName, err: error },
        'cannot note that freezes are noted: what a driver of before has left frozen stays so (fsfreeze --unfreeze)',
      );
      return false;
    }
  }

  /** After `canNoteAll`. */
  async noteAllFromNow(queue: DiskQueue): Promise<void> {
    await queue.run(() => rename(this.#newSincePath, this.#sincePath));
  }

  get #newSincePath(): string {
    return `${this.#sincePath}.new`;
  }

  get #sincePath(): string {
    return join(this.#directory, `.noted.${this.#poolName}`);
  }

  #path(what: Frozen): string {
    return join(this.#directory, `${this.#poolName}.${what === 'pool' ? what : fileNameOf(what)}`);
  }
}
