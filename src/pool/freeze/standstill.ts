import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { finishAll } from '../../volume/finish-all.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { PoolLog } from '../log.ts';
import type { Freezes } from './freezes.ts';

/** The mounted filesystem of a volume, by an open directory. */
export interface MountedVolume {
  readonly volumeId: VolumeId;
  readonly directory: Descriptor;
}

export interface StandstillOptions {
  readonly freezes: Freezes;
  readonly queue: DiskQueue;
  /** Of its own: a thaw never waits for a worker thread that waits for the thaw. */
  readonly thawQueue: DiskQueue;
  readonly log: PoolLog;
}

/**
 * Filesystems that are frozen together, once, and thawed whatever happens. One that somebody else has frozen, a backup's
 * hook for example, stands still already: its freeze is left to whoever made it.
 */
export class Standstill {
  readonly #options: StandstillOptions;
  readonly #frozen = new Set<MountedVolume>();
  readonly #held = new Set<MountedVolume>();
  #isOver = false;
  #wasHeld = true;
  #ending: Promise<unknown> = Promise.resolve();

  constructor(options: StandstillOptions) {
    this.#options = options;
  }

  /** Together: who writes to several of them waits for the slowest, not for the sum. */
  async begin(filesystems: readonly MountedVolume[]): Promise<void> {
    await finishAll(
      filesystems.map(async (filesystem) => {
        const { freezes, queue } = this.#options;
        const state = await freezes.freeze(queue, filesystem.volumeId, filesystem.directory);
        (state === 'held' ? this.#held : this.#frozen).add(filesystem);
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
    const turn = this.#ending.then(async () => {
      await finishAll(Array.from(this.#held, (filesystem) => this.#requireStillHeld(filesystem)));
      await finishAll(Array.from(this.#frozen, (filesystem) => this.#thaw(filesystem)));
    });
    this.#ending = turn.catch(() => undefined);
    await turn;
    return this.#wasHeld;
  }

  /** The kernel tells whether a filesystem is frozen only by refusing to freeze it. */
  async #requireStillHeld(filesystem: MountedVolume): Promise<void> {
    const { freezes, thawQueue } = this.#options;
    this.#held.delete(filesystem);
    if (thawQueue.closedFor !== undefined) return;
    if ((await freezes.freeze(thawQueue, filesystem.volumeId, filesystem.directory)) === 'held') return;
    this.#wasHeld = false;
    this.#frozen.add(filesystem);
  }

  async #thaw(filesystem: MountedVolume): Promise<void> {
    const { log } = this.#options;
    try {
      if (!(await this.#thawUnlessSick(filesystem))) this.#wasHeld = false;
      this.#frozen.delete(filesystem);
    } catch (error) {
      log.error(
        { path: filesystem.directory.path, err: error },
        'cannot thaw a filesystem: its users wait for fsfreeze --unfreeze',
      );
      throw error;
    }
  }

  /** @returns whether it was frozen */
  async #thawUnlessSick({ directory, volumeId }: MountedVolume): Promise<boolean> {
    const { freezes, thawQueue } = this.#options;
    try {
      return await freezes.thaw(thawQueue, volumeId, directory);
    } catch (error) {
      // The disk is sick. When its pool is opened again, what has a note is thawed.
      if (thawQueue.closedFor !== undefined) return false;
      throw error;
    }
  }
}
