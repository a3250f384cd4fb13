import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

/** What QEMU says: the greeting, an answer, or an event. */
interface Message {
  readonly return?: unknown;
  readonly error?: { readonly desc: string };
  readonly event?: string;
}

/** QEMU's own control over a machine that runs (the QEMU Machine Protocol): one line of JSON each way at a time. */
export class Monitor implements Disposable {
  readonly #socket: Socket;
  readonly #lines: AsyncIterator<string>;
  readonly #events: string[] = [];
  /** Stays over from a wait that came to its end before it. */
  #next: Promise<Message> | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  }

  static async connect(socketPath: string): Promise<Monitor> {
    const socket = connect(socketPath);
    await once(socket, 'connect');
    const monitor = new Monitor(socket);
    await monitor.#read();
    await monitor.execute('qmp_capabilities');
    return monitor;
  }

  /** @throws what QEMU refuses */
  async execute(command: string, options: object = {}): Promise<void> {
    this.#socket.write(`${JSON.stringify({ execute: command, arguments: options })}\n`);
    for (;;) {
      const { error, event, return: result } = await this.#read();
      if (error !== undefined) throw new Error(`QEMU refuses ${command}: ${error.desc}`);
      if (event !== undefined) this.#events.push(event);
      if (result !== undefined) return;
    }
  }

  /** Waits for an event, unless it has been. @returns false if it does not come in time */
  async happened(event: string, patienceMs: number): Promise<boolean> {
    const over = new AbortController();
    const late = delay(patienceMs, undefined, { signal: over.signal }).catch(() => undefined);
    try {
      while (!this.#events.includes(event)) {
        const message = await Promise.race([this.#read(), late]);
        if (message === undefined) return false;
        if (message.event !== undefined) this.#events.push(message.event);
      }
      return true;
    } finally {
      over.abort();
    }
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  #read(): Promise<Message> {
    this.#next ??= this.#readLine().finally(() => {
      this.#next = undefined;
    });
    // An end that comes when nobody waits any more is no error.
    this.#next.catch(() => undefined);
    return this.#next;
  }

  async #readLine(): Promise<Message> {
    const { done, value } = await this.#lines.next();
    if (done === true) throw new Error('QEMU has closed its control');
    return JSON.parse(value);
  }
}
