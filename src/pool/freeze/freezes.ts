import { mkdir, readdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Openable } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';
import { freeze, thaw } from '../../kernel/mount/freeze.ts';
import { parseVolumeId, type VolumeId } from '../../volume/id.ts';

/** A filesystem that the driver may freeze: a volume's, or the one that the pool itself lies on. */
export type Frozen = VolumeId | 'pool';

const bootIdFile = '/proc/sys/kernel/random/boot_id';

/**
 * The one place that freezes a pool's filesystems and thaws them. The kernel does not tell who froze a filesystem, and a
 * backup's hook may have done so. A note in the driver's own directory therefore stands for each freeze of the driver for
 * as long as it lasts: after a kill -9 the next start thaws what has a note, and nothing else. A freeze ends with
 * the boot, so a note needs no fsync, and one of an earlier boot means nothing.
 */
export class Freezes {
  readonly #directory: string;
  readonly #poolName: string;

  constructor(dataDirectory: string, poolName: string) {
    this.#directory = join(dataDirectory, 'frozen');
    this.#poolName = poolName;
  }

  /** @returns held: somebody else has frozen it already, and has to thaw it */
  async freeze(queue: DiskQueue, what: Frozen, filesystem: Openable): Promise<'frozen' | 'held'> {
    await this.#note(queue, what);
    try {
      await freeze(queue, filesystem);
      return 'frozen';
    } catch (error) {
      await this.forget(queue, what);
      if (isErrno(error, 'EBUSY')) return 'held';
      throw error;
    }
  }

  /** Ends a freeze of the driver. @returns whether it was frozen until now */
  async thaw(queue: DiskQueue, what: Frozen, filesystem: Openable): Promise<boolean> {
    const wasFrozen = await thaw(queue, filesystem);
    await this.forget(queue, what);
    return wasFrozen;
  }

  /** Freezes a filesystem for a moment, which empties its log. So does a freeze of somebody else. */
  async briefly(queue: DiskQueue, what: Frozen, filesystem: Openable): Promise<void> {
    if ((await this.freeze(queue, what, filesystem)) === 'frozen') await this.thaw(queue, what, filesystem);
  }

  /** Whether the driver died while it had this one frozen, or was about to. */
  async isLeft(queue: DiskQueue, what: Frozen): Promise<boolean> {
    const [noted, booted] = await queue.run(() =>
      Promise.all([readFile(this.#path(what), 'utf8').catch(ignoreMissing), readFile(bootIdFile, 'utf8')]),
    );
    return noted !== undefined && noted === booted;
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
    await queue.run(async () => {
      const text = await readFile(bootIdFile, 'utf8');
      const write = () => writeFile(this.#path(what), text, { mode: 0o600 });
      await write().catch(async (error) => {
        if (!isErrno(error, 'ENOENT')) throw error;
        await mkdir(this.#directory, { recursive: true, mode: 0o700 });
        await write();
      });
    });
  }

  /** Nothing is frozen for this note any more. */
  async forget(queue: DiskQueue, what: Frozen): Promise<void> {
    await queue.run(() => unlink(this.#path(what))).catch(ignoreMissing);
  }

  #path(what: Frozen): string {
    return join(this.#directory, `${this.#poolName}.${what}`);
  }
}
