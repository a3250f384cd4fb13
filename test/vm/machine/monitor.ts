import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

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

  /** Waits for an event, unless it has been. */
  async happened(event: string): Promise<void> {
    while (!this.#events.includes(event)) {
      const message = await this.#read();
      if (message.event !== undefined) this.#events.push(message.event);
    }
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  async #read(): Promise<Message> {
    const { done, value } = await this.#lines.next();
    if (done === true) throw new Error('QEMU has closed its control');
    return JSON.parse(value);
  }
}
