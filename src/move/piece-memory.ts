import { alignedMemory } from '../kernel/file/direct.ts';

/** Memory that holds one piece at a time. */
export interface Slot {
  readonly memory: Buffer<ArrayBuffer>;
  /**
   * It may hold another piece. Not after a failed call on a disk: that may go on after its caller has left, and would meet
   * the other piece.
   */
  free(): void;
}

/**
 * A few slots, used in turn. Memory that is made for each piece is cleared, mapped and collected again, and each 64 MiB of
 * it make V8 look through all of its heap: that took longer than the copy itself.
 */
export class PieceMemory {
  readonly #slotBytes: number;
  /** The number of slots that may still be made. */
  #left: number;
  readonly #unused: Buffer<ArrayBuffer>[] = [];
  readonly #waiting: ((memory: Buffer<ArrayBuffer>) => void)[] = [];

  constructor(slots: number, slotBytes: number) {
    this.#left = slots;
    this.#slotBytes = slotBytes;
  }

  /** Waits for a slot. */
  async take(): Promise<Slot> {
    const memory =
      this.#unused.pop() ??
      this.#make() ??
      (await new Promise<Buffer<ArrayBuffer>>((resolve) => {
        this.#waiting.push(resolve);
      }));
    return { memory, free: () => this.#free(memory) };
  }

  #make(): Buffer<ArrayBuffer> | undefined {
    if (this.#left === 0) return undefined;
    this.#left--;
    return alignedMemory(this.#slotBytes);
  }

  #free(memory: Buffer<ArrayBuffer>): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#unused.push(memory);
    else next(memory);
  }
}
