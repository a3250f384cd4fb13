import type { EntryStatus } from '../../kernel/file/path.ts';
import { FailedPrecondition } from '../../volume/errors.ts';

/** Limit of entries that wait for more names at a time: all of them are in memory. */
const maxWaiting = 1_000_000;

/** An entry, and the number of its names that have come. */
export interface LinkNames {
  readonly link: number;
  readonly names: number;
}

export interface SeenName {
  /** 0: it has no other name. */
  readonly link: number;
  readonly isFirst: boolean;
  /** undefined: more names may come. */
  readonly complete: LinkNames | undefined;
}

interface Waiting {
  readonly link: number;
  /** The number of all its names, also outside of the tree. */
  readonly links: number;
  names: number;
}

/** The entries of several names that have come, and wait for their other names. */
export class Links {
  /** By inode. */
  readonly #waiting = new Map<number | string, Waiting>();
  #last = 0;

  /**
   * @returns undefined if it does not have as many names as when the first one came
   * @throws FailedPrecondition if there are too many
   */
  see({ device, inode, links }: EntryStatus): SeenName | undefined {
    if (links < 2) return { link: 0, isFirst: true, complete: undefined };
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
      this.#waiting.set(key, { link, links, names: 1 });
      return { link, isFirst: true, complete: undefined };
    }
    if (waiting.links !== links) return undefined;
    const { link } = waiting;
    const names = ++waiting.names;
    if (names < links) return { link, isFirst: false, complete: undefined };
    this.#waiting.delete(key);
    return { link, isFirst: false, complete: { link, names } };
  }

  /** The entries that have names outside of the tree, once all of it has come. */
  rest(): LinkNames[] {
    return Array.from(this.#waiting.values(), ({ link, names }) => ({ link, names }));
  }
}
