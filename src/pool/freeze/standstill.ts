import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { freeze, thaw } from '../../kernel/mount/freeze.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { finishAll } from '../../volume/finish-all.ts';
import { shortPath } from '../../volume/short-path.ts';
import type { PoolLog } from '../log.ts';

export interface StandstillOptions {
  readonly queue: DiskQueue;
  /** Of its own: a thaw never waits for a worker thread that waits for the thaw. */
  readonly thawQueue: DiskQueue;
  readonly log: PoolLog;
}

/** Filesystems that are frozen together, once, and thawed whatever happens. */
export class Standstill {
  readonly #options: StandstillOptions;
  readonly #frozen = new Set<Descriptor>();
  #isOver = false;
  #wasHeld = true;
  #ending: Promise<unknown> = Promise.resolve();

  constructor(options: StandstillOptions) {
    this.#options = options;
  }

  /** Together: who writes to several of them waits for the slowest, not for the sum. */
  async begin(filesystems: readonly Descriptor[]): Promise<void> {
    await finishAll(
      filesystems.map(async (filesystem) => {
        await this.#freeze(filesystem);
        this.#frozen.add(filesystem);
        // Too late: the others are thawed already, and nobody would think of this one before the slowest is frozen.
        if (this.#isOver) await this.end();
      }),
    );
  }

  /**
   * Thaws all that are frozen, and at once what is frozen later. One that cannot be thawed keeps no other frozen; called
   * again, this tries once more.
   * @returns whether all stood still until now, and nobody else had thawed one
   */
  async end(): Promise<boolean> {
    this.#isOver = true;
    const turn = this.#ending.then(() => finishAll(Array.from(this.#frozen, (filesystem) => this.#thaw(filesystem))));
    this.#ending = turn.catch(() => undefined);
    await turn;
    return this.#wasHeld;
  }

  async #freeze(filesystem: Descriptor): Promise<void> {
    try {
      await freeze(this.#options.queue, filesystem);
    } catch (error) {
      if (!isErrno(error, 'EBUSY')) throw error;
      throw new FailedPrecondition(
        `The filesystem at ${shortPath(filesystem.path)} is frozen by somebody else: thaw it first (fsfreeze --unfreeze).`,
      );
    }
  }

  async #thaw(filesystem: Descriptor): Promise<void> {
    const { log, thawQueue } = this.#options;
    try {
      if (!(await thawUnlessSick(thawQueue, filesystem))) this.#wasHeld = false;
      this.#frozen.delete(filesystem);
    } catch (error) {
      log.error(
        { path: filesystem.path, err: error },
        'cannot thaw a filesystem: its users wait for fsfreeze --unfreeze',
      );
      throw error;
    }
  }
}

/** @returns whether it was frozen */
export async function thawUnlessSick(queue: DiskQueue, filesystem: Descriptor): Promise<boolean> {
  try {
    return await thaw(queue, filesystem);
  } catch (error) {
    // Of a disk that is sick. When its pool is opened anew, whatever is frozen is thawed.
    if (queue.closedFor !== undefined) return false;
    throw error;
  }
}
