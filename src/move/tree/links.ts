import type { EntryStatus } from '../../kernel/file/path.ts';
import { FailedPrecondition } from '../../volume/errors.ts';

/** Limit of entries that wait for more names at a time: all of them are in memory. */
const maxWaiting = 1_000_000;

interface Waiting {
  readonly link: number;
  /** The names that are left. */
  left: number;
}

/** The entries of several names that have come, and wait for their other names. */
export class Links {
  /** By inode. */
  readonly #waiting = new Map<number | string, Waiting>();
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
      this.#waiting.set(key, { link, left: links - 1 });
      return { link, isFirst: true };
    }
    if (--waiting.left === 0) this.#waiting.delete(key);
    return { link: waiting.link, isFirst: false };
  }
}
