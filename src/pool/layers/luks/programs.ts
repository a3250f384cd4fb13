import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';

/** Each takes 73 MiB with a passphrase (argon2id), and the driver's container may have 1 GiB. */
const cryptsetupsAtOnce = 4;
/** Fewer: those of a pool whose disk hangs must leave a place to the others. */
const cryptsetupsOfPool = cryptsetupsAtOnce - 1;
/** More only makes each of them slower. */
const formatsAtOnce = 8;

/** A limited number of places, for the whole driver. */
class Places {
  readonly #limit: number;
  readonly #taken = new Set<object>();
  readonly #waiting: { readonly owner: object; readonly enter: (isTaken: boolean) => void }[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** @returns false: it was given up before there was a place */
  enter(owner: object): Promise<boolean> {
    if (this.#taken.size < this.#limit) {
      this.#taken.add(owner);
      return Promise.resolve(true);
    }
    return new Promise((enter) => this.#waiting.push({ owner, enter }));
  }

  /** Gives up a place, or the wait for one. */
  leave(owner: object): void {
    const index = this.#waiting.findIndex((each) => each.owner === owner);
    if (index >= 0) this.#waiting.splice(index, 1)[0]?.enter(false);
    if (!this.#taken.delete(owner)) return;
    const next = this.#waiting.shift();
    if (next === undefined) return;
    this.#taken.add(next.owner);
    next.enter(true);
  }
}

const places = new Places(cryptsetupsAtOnce);

/**
 * The programs of a pool's encryption. They belong to its queue: when that is closed, as its disk hangs, a call that waits for
 * one gets an error, and the pool is not opened again before they have ended.
 */
export class LuksPrograms {
  readonly #cryptsetup: DiskQueue;
  readonly #formats: DiskQueue;

  constructor(queue: DiskQueue) {
    this.#cryptsetup = queue.beside('cryptsetup', cryptsetupsOfPool);
    this.#formats = queue.beside('mkfs encrypted', formatsAtOnce);
  }

  async cryptsetup<T>(work: () => Promise<T>): Promise<T> {
    const owner = {};
    try {
      return await this.#cryptsetup.run(async () => {
        if (await places.enter(owner)) return await work();
        throw this.#cryptsetup.closedFor ?? new Error('given up');
      });
    } finally {
      // A program that hangs with its disk leaves its place, too: by then it has hardly any memory.
      places.leave(owner);
    }
  }

  format<T>(work: () => Promise<T>): Promise<T> {
    return this.#formats.run(work);
  }
}
