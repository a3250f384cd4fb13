import type { OnReadOpts } from 'node:net';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { HoldfastError } from '../../volume/errors.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';
import { NotConnected } from '../source.ts';
import type { ByteSource } from './frames.ts';
import { errorOf, longestBodyBytes, lost, silentMs, switchingProtocols, told, upgradeTo } from './wire.ts';

export interface ReadConnectionOptions {
  readonly host: string;
  readonly port: number;
  /** The certificate of this node, and how the other one is believed. */
  readonly secure: ConnectionOptions;
  readonly path: string;
  readonly signal: AbortSignal;
  /** The other node, for messages. */
  readonly title: string;
}

/** A TLS record, the longest that Node hands over at once, has 16 KiB. */
const landingBytes = 64 * 1024;
/** The number of bytes that are kept while nothing is awaited, before the network has to wait. */
const maxHeldBytes = 256 * 1024;
const headEnd = '\r\n\r\n';
const longestHeadBytes = 1024;

/**
 * A separate connection for the bytes of a volume. They land in the same memory again and again, and are copied to where
 * they are wanted: as a stream of Node, each TLS record is an allocation, and collecting those took half of the processor.
 */
export class ReadConnection implements ByteSource, Disposable {
  readonly #socket: TLSSocket;
  readonly #title: string;
  readonly #landing = Buffer.alloc(landingBytes);
  #held: Buffer[] = [];
  #heldBytes = 0;
  #wanted: { readonly memory: Buffer; filled: number; readonly done: () => void } | undefined;
  #failed: Error | undefined;

  private constructor({ host, path, port, secure, signal, title }: ReadConnectionOptions) {
    this.#title = title;
    const onread: OnReadOpts = { buffer: this.#landing, callback: (length) => this.#came(length) };
    const options: ConnectionOptions & { readonly onread: OnReadOpts } = { ...secure, host, port, onread };
    this.#socket = connect(options);
    this.#socket.setKeepAlive(true, 10_000);
    const abort = () => this.#fail(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    this.#socket.on('error', (error) => this.#fail(error));
    this.#socket.on('timeout', () =>
      this.#fail(new NotConnected(`${title} has sent nothing for ${silentMs / 1000} s.`)),
    );
    this.#socket.on('close', () => {
      signal.removeEventListener('abort', abort);
      this.#fail(new NotConnected(`${title} has ended the connection in the middle.`));
    });
    if (signal.aborted) abort();
    this.#socket.write(`GET ${path} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: ${upgradeTo}\r\n\r\n`);
  }

  /** @throws NotConnected, and what the source has refused it for */
  static async open(options: ReadConnectionOptions): Promise<ReadConnection> {
    const connection = new ReadConnection(options);
    try {
      const answer = Buffer.alloc(switchingProtocols.length);
      await connection.read(answer);
      if (answer.equals(switchingProtocols)) return connection;
      throw await connection.#refusal(answer);
    } catch (error) {
      connection[Symbol.dispose]();
      throw error;
    }
  }

  /** Fills the memory. One caller at a time. @throws NotConnected */
  async read(memory: Buffer): Promise<void> {
    const filled = this.#takeHeld(memory);
    if (filled === memory.length) return;
    if (this.#failed !== undefined) throw this.#failed;
    // Silence counts only while something is awaited: a source that is read slowly on purpose is not lost.
    this.#socket.setTimeout(silentMs);
    await new Promise<void>((done) => {
      this.#wanted = { memory, filled, done };
      this.#socket.resume();
    });
    this.#socket.setTimeout(0);
    if (this.#wanted !== undefined) throw this.#failed;
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  /** @param begun the answer, as far as it has come */
  async #refusal(begun: Buffer): Promise<Error> {
    const other = new NotConnected(
      `${this.#title} sends volumes in another way: it has another version of the driver.`,
    );
    let answer = begun;
    const more = async (length: number) => {
      const bytes = Buffer.alloc(length);
      await this.read(bytes);
      answer = Buffer.concat([answer, bytes]);
    };
    if (!answer.toString('latin1').startsWith('HTTP/1.1 403 ')) return other;
    while (!answer.includes(headEnd) && answer.length < longestHeadBytes) await more(1);
    const bodyAt = answer.indexOf(headEnd) + headEnd.length;
    const length = Number(/\r\ncontent-length: ([0-9]{1,5})\r\n/i.exec(answer.toString('latin1', 0, bodyAt))?.[1] ?? 0);
    const left = bodyAt + length - answer.length;
    if (length > longestBodyBytes || left < 0) return other;
    await more(left);
    const parsed = parseJsonInput(told.refusal, answer.toString('utf8', bodyAt));
    return 'data' in parsed ? errorOf(parsed.data) : other;
  }

  /** @returns false if the network has to wait */
  #came(length: number): boolean {
    let at = 0;
    const wanted = this.#wanted;
    if (wanted !== undefined) {
      at = this.#landing.copy(wanted.memory, wanted.filled, 0, length);
      wanted.filled += at;
      if (wanted.filled === wanted.memory.length) {
        this.#wanted = undefined;
        wanted.done();
      }
    }
    if (at < length) {
      this.#held.push(Buffer.from(this.#landing.subarray(at, length)));
      this.#heldBytes += length - at;
    }
    return this.#heldBytes < maxHeldBytes;
  }

  #takeHeld(memory: Buffer): number {
    let filled = 0;
    while (filled < memory.length) {
      const first = this.#held[0];
      if (first === undefined) break;
      const copied = first.copy(memory, filled);
      filled += copied;
      if (copied === first.length) this.#held.shift();
      else this.#held[0] = first.subarray(copied);
    }
    this.#heldBytes -= filled;
    return filled;
  }

  #fail(error: unknown): void {
    this.#failed ??= error instanceof HoldfastError ? error : lost(this.#title, error);
    this.#socket.destroy();
    this.#wanted?.done();
  }
}
