import { createServer, type Server, type Socket } from 'node:net';
import { withTimeout } from '../../volume/with-timeout.ts';

/** Who has not shown a token in so long is sent away. */
const strangerMs = 10_000;

/** A refusal is on its way for so long. */
const refusalMs = 1_000;

/** So many may be at the door at a time without having shown a token. */
const mostStrangers = 256;

/** So many connections in all: three for each node of the largest cluster that Kubernetes supports. */
const mostConnections = 15_000;

export interface DoorOptions {
  readonly host: string | undefined;
  readonly port: number;
  /** A connection for the server. */
  readonly admit: (socket: Socket) => void;
  readonly strangerMs?: number;
}

/**
 * Takes the connections of the controller's port. Whoever has not shown a token yet is a stranger; when there are too many,
 * the one that has stood there longest has to go, of the address that has most: no one keeps others out by standing there.
 */
export class Door {
  readonly #server: Server;
  readonly #options: DoorOptions;
  readonly #strangers = new Map<Socket, NodeJS.Timeout>();
  readonly #sockets = new Map<string, Socket>();
  /** How many links those have that are no strangers. */
  readonly #links = new Map<Socket, number>();
  /** Those that have been refused. */
  readonly #leaving = new WeakSet<Socket>();

  private constructor(options: DoorOptions) {
    this.#options = options;
    this.#server = createServer({ noDelay: true, keepAlive: true }, (socket) => this.#came(socket));
    this.#server.maxConnections = mostConnections;
  }

  static async open(options: DoorOptions): Promise<Door> {
    const door = new Door(options);
    await new Promise<void>((resolve, reject) => {
      door.#server.once('error', reject);
      door.#server.listen({ port: options.port, host: options.host }, () => {
        door.#server.off('error', reject);
        resolve();
      });
    });
    return door;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  get strangers(): number {
    return this.#strangers.size;
  }

  /** Whoever comes from there, `address:port`, has shown a token, and has one link more. */
  known(peer: string): void {
    const socket = this.#sockets.get(peer);
    if (socket === undefined) return;
    this.#links.set(socket, (this.#links.get(socket) ?? 0) + 1);
    this.#noStranger(socket);
  }

  /** A link has ended. With the last one whoever comes from there is a stranger again. */
  left(peer: string): void {
    const socket = this.#sockets.get(peer);
    const links = socket && this.#links.get(socket);
    if (socket === undefined || links === undefined) return;
    this.#links.set(socket, links - 1);
    if (links > 1) return;
    this.#links.delete(socket);
    this.#stranger(socket, this.#options.strangerMs ?? strangerMs);
  }

  /** Closes the connection of a stranger, once the refusal has been sent. */
  sendAway(peer: string): void {
    const socket = this.#sockets.get(peer);
    if (socket === undefined || this.#links.has(socket)) return;
    this.#leaving.add(socket);
    this.#stranger(socket, refusalMs);
  }

  /** Whether a connection from there is there, and may stay. */
  has(peer: string): boolean {
    const socket = this.#sockets.get(peer);
    return socket !== undefined && !socket.destroyed && !this.#leaving.has(socket);
  }

  #stranger(socket: Socket, patienceMs: number): void {
    this.#noStranger(socket);
    const timer = setTimeout(() => socket.destroy(), patienceMs);
    this.#strangers.set(socket, timer.unref());
    if (this.#strangers.size > mostStrangers) this.#sendOneAway();
  }

  #noStranger(socket: Socket): void {
    clearTimeout(this.#strangers.get(socket));
    this.#strangers.delete(socket);
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets.values()) socket.destroy();
    await withTimeout(strangerMs, closed);
  }

  #came(socket: Socket): void {
    const peer = peerOf(socket);
    this.#sockets.set(peer, socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      this.#noStranger(socket);
      this.#links.delete(socket);
      if (this.#sockets.get(peer) === socket) this.#sockets.delete(peer);
    });
    this.#stranger(socket, this.#options.strangerMs ?? strangerMs);
    if (!socket.destroyed) this.#options.admit(socket);
  }

  #sendOneAway(): void {
    const byAddress = Map.groupBy(this.#strangers.keys(), ({ remoteAddress }) => remoteAddress);
    const [crowd] = [...byAddress.values()].sort((a, b) => b.length - a.length);
    const oldest = crowd?.[0];
    if (oldest === undefined) return;
    this.#noStranger(oldest);
    oldest.destroy();
  }
}

/** As grpc-js names it. */
function peerOf({ remoteAddress = '', remotePort = 0 }: Socket): string {
  return `${remoteAddress}:${remotePort}`;
}
