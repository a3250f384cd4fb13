import type { EntryStatus } from '../../kernel/file/path.ts';
import { FailedPrecondition } from '../../volume/errors.ts';

/** Limit of entries that wait for more names at a time: all of them are in memory. */
const maxWaiting = 1_000_000;
/** Limit of names of one entry that are counted; of one with more, the rest waits to the end. */
const maxNames = 2 ** 31;

/** The entries of several names that have come, and wait for their other names. */
export class Links {
  /** By inode: the number of the entry and the names that are left, in one number to save memory. */
  readonly #waiting = new Map<number | string, number>();
  #last = 0;

  /** @throws FailedPrecondition if there are too many */
  see({ device, inode, links }: EntryStatus): { readonly link: number; readonly isFirst: boolean } {
    if (links < 2) return { link: 0, isFirst: true };
    // Inode numbers of btrfs are those of one subvolume.
    const small = Number(inode);
    const key = device.major === 0 || !Number.isSafeInteger(small) ? `${device.major}:${device.minor}:${inode}` : small;
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) {
      if (this.#waiting.size >= maxWaiting) {
        throw new FailedPrecondition(
          `The volume cannot move: it has more than ${maxWaiting} files of several names, which have to be in memory at a time.`,
        );
      }
      const link = ++this.#last;
      this.#waiting.set(key, link * maxNames + Math.min(links - 1, maxNames - 1));
      return { link, isFirst: true };
    }
    if (waiting % maxNames <= 1) this.#waiting.delete(key);
    else this.#waiting.set(key, waiting - 1);
    return { link: Math.floor(waiting / maxNames), isFirst: false };
  }
}
