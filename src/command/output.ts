import { StringDecoder } from 'node:string_decoder';

/** The end of a program's output. Memory grows only as the program writes, up to a limit. */
export class OutputEnd {
  readonly #limitBytes: number;
  #memory = Buffer.alloc(0);
  #usedBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  add(chunk: Buffer): void {
    const last = chunk.subarray(-this.#limitBytes);
    if (this.#usedBytes + last.length > this.#memory.length) this.#makeRoomFor(last.length);
    this.#usedBytes += last.copy(this.#memory, this.#usedBytes);
  }

  text(): string {
    return this.#kept.toString('utf8');
  }

  get #kept(): Buffer {
    return this.#memory.subarray(Math.max(0, this.#usedBytes - this.#limitBytes), this.#usedBytes);
  }

  /** Doubles the buffer, so that a program that writes byte by byte does not have it copied each time. */
  #makeRoomFor(bytes: number): void {
    const kept = this.#kept;
    const memory = Buffer.alloc(2 * (kept.length + bytes));
    this.#usedBytes = kept.copy(memory);
    this.#memory = memory;
  }
}

/** Longer lines are cut: a program that never ends a line must not fill the memory. */
const longestLine = 1 << 16;

/** Splits a program's output into lines, and passes each on as soon as it is complete. */
export class LineSplitter {
  readonly #decoder = new StringDecoder('utf8');
  readonly #onLine: (line: string) => void;
  #rest = '';

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  add(chunk: Buffer): void {
    const [first = '', ...others] = this.#decoder.write(chunk).split('\n');
    this.#rest = (this.#rest + first).slice(0, longestLine);
    for (const line of others) {
      this.#onLine(this.#rest);
      this.#rest = line.slice(0, longestLine);
    }
  }

  /** The last line may have no newline. */
  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest);
    this.#rest = '';
  }
}
