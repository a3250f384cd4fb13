import type { Socket } from 'node:net';
import { encodeFrame, FrameReader, type Request } from './frames.ts';

/** What comes out of an exchange. */
export interface Listener {
  output?(bytes: Buffer): void;
  error?(bytes: Buffer): void;
  done(result: Buffer): void;
  /** The machine is gone. */
  cut(): void;
}

/** An exchange that has begun. */
export interface Channel {
  input(bytes: Buffer): void;
  end(): void;
}

/** The machine was cut off while it was at work, or before. */
export class MachineGone extends Error {}

/** The host's end of the serial port. */
export class Link {
  readonly #socket: Socket;
  readonly #exchanges = new Map<number, { readonly request: Request; readonly listener: Listener }>();
  readonly #reader = new FrameReader();
  #channels = 0;
  #isCut = false;
  /** Settles when the agent has said hello. */
  readonly ready: Promise<void>;

  constructor(socket: Socket) {
    this.#socket = socket;
    let greet: () => void = () => undefined;
    let giveUp: (error: MachineGone) => void = () => undefined;
    this.ready = new Promise((resolve, reject) => {
      greet = resolve;
      giveUp = reject;
    });
    this.ready.catch(() => undefined);
    socket.on('data', (chunk: Buffer) => {
      for (const { bytes, channel, kind } of this.#reader.read(chunk)) {
        if (kind === 'hello') greet();
        const listener = this.#exchanges.get(channel)?.listener;
        if (kind === 'output') listener?.output?.(bytes);
        if (kind === 'error') listener?.error?.(bytes);
        if (kind !== 'done') continue;
        this.#exchanges.delete(channel);
        listener?.done(bytes);
      }
    });
    socket.on('error', () => undefined);
    socket.once('close', () => {
      giveUp(new MachineGone('the virtual machine went away before its agent was there'));
      this.cut();
    });
  }

  open(request: Request, listener: Listener): Channel {
    if (this.#isCut) throw new MachineGone('the virtual machine is gone');
    const channel = ++this.#channels;
    this.#exchanges.set(channel, { request, listener });
    this.#socket.write(encodeFrame('open', channel, JSON.stringify(request)));
    return {
      input: (bytes) => this.#socket.write(encodeFrame('input', channel, bytes)),
      end: () => this.#socket.write(encodeFrame('end', channel)),
    };
  }

  /** The requests that have no end yet, as text. */
  underWay(): string[] {
    return [...this.#exchanges.values()].map(({ request }) => JSON.stringify(request));
  }

  /** From now on nothing of the machine is heard: whatever it still says does not count. */
  cut(): void {
    if (this.#isCut) return;
    this.#isCut = true;
    this.#socket.destroy();
    const exchanges = [...this.#exchanges.values()];
    this.#exchanges.clear();
    for (const { listener } of exchanges) listener.cut();
  }
}
