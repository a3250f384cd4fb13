import { type Descriptor, openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { finishAll } from '../../volume/flow/finish-all.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { PoolLog } from '../log.ts';
import type { Freezes } from './freezes.ts';

const cannotThaw = 'cannot thaw a filesystem: its users wait for fsfreeze --unfreeze';

/** The mounted filesystem of a volume, by an open directory. */
export interface MountedVolume {
  readonly volumeId: VolumeId;
  readonly directory: Descriptor;
}

export interface StandstillOptions {
  readonly freezes: Freezes;
  readonly queue: DiskQueue;
  /** Separate: a thaw never waits for a worker thread that waits for the thaw. */
  readonly thawQueue: DiskQueue;
  readonly log: PoolLog;
  /** A filesystem that is frozen already says so at once. */
  readonly answerMs?: number;
}

/**
 * Filesystems that are frozen together, once, and thawed whatever happens. One that was frozen by another program, a backup's
 * hook for example, stands still already: its freeze is left to that program.
 */
export class Standstill {
  readonly #options: StandstillOptions;
  readonly #answerMs: number;
  readonly #frozen = new Set<MountedVolume>();
  readonly #held = new Set<MountedVolume>();
  #isOver = false;
  #wasThawed = false;
  #ending: Promise<unknown> = Promise.resolve();

  constructor(options: StandstillOptions) {
    this.#options = options;
    this.#answerMs = options.answerMs ?? 5_000;
  }

  /** Together: a program that writes to several of them waits for the slowest, not for the sum. */
  async begin(filesystems: readonly MountedVolume[]): Promise<void> {
    await finishAll(
      filesystems.map(async (filesystem) => {
        const { freezes, queue } = this.#options;
        const state = await freezes.freeze(queue, filesystem.volumeId, filesystem.directory);
        (state === 'held' ? this.#held : this.#frozen).add(filesystem);
        // Too late: the others are thawed already, and `end` would miss this one, as the slowest is still being frozen.
        if (this.#isOver) await this.end();
      }),
    );
  }

  /**
   * Thaws all that are frozen, and those that are frozen later at once. One that cannot be thawed keeps no other frozen; called
   * again, this tries once more.
   */
  async end(): Promise<void> {
    this.#isOver = true;
    const turn = this.#ending.then(() => finishAll(Array.from(this.#frozen, (filesystem) => this.#thaw(filesystem))));
    this.#ending = turn.catch(() => undefined);
    await turn;
  }

  /** The same. @returns true if all stood still until now, and no other program had thawed one */
  async endInTime(): Promise<boolean> {
    // Asked beside the thaw, which waits for no answer: a filesystem that was thawed in the meantime is frozen by the question, and that
    // writes back all that is dirty there.
    const answers = Array.from(this.#held, (filesystem) =>
      withTimeout(this.#answerMs, this.#isStillHeld(filesystem)).catch(() => false),
    );
    await this.end();
    return !this.#wasThawed && (await Promise.all(answers)).every((isHeld) => isHeld === true);
  }

  /** The kernel tells whether a filesystem is frozen only by refusing to freeze it. */
  async #isStillHeld({ directory, volumeId }: MountedVolume): Promise<boolean> {
    const { freezes, log, queue, thawQueue } = this.#options;
    // The caller may have closed its directory before there is an answer.
    await using own = await openReadOnly(queue, directory);
    if ((await freezes.freeze(queue, volumeId, own)) === 'held') return true;
    await freezes.thaw(thawQueue, volumeId, own).catch((error) => {
      log.error({ path: directory.path, err: error }, cannotThaw);
      throw error;
    });
    return false;
  }

  async #thaw(filesystem: MountedVolume): Promise<void> {
    const { log } = this.#options;
    try {
      if (!(await this.#thawUnlessSick(filesystem))) this.#wasThawed = true;
      this.#frozen.delete(filesystem);
    } catch (error) {
      log.error({ path: filesystem.directory.path, err: error }, cannotThaw);
      throw error;
    }
  }

  /** @returns whether it was frozen */
  async #thawUnlessSick({ directory, volumeId }: MountedVolume): Promise<boolean> {
    const { freezes, thawQueue } = this.#options;
    try {
      return await freezes.thaw(thawQueue, volumeId, directory);
    } catch (error) {
      // The disk is sick. When its pool is opened again, filesystems with a note are thawed.
      if (thawQueue.closedFor !== undefined) return false;
      throw error;
    }
  }
}
