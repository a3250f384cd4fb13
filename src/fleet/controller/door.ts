import { createServer, type Server, type Socket } from 'node:net';
import { listen } from '../../sockets/http-server.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';

/** Time in which a connection must show a token. */
const strangerMs = 10_000;

/** Time for a refusal to be sent. */
const refusalMs = 1_000;

/** Limit of connections that have not shown a token. */
const maxStrangers = 256;

/** Limit of all connections: three for each node of the largest cluster that Kubernetes supports. */
const maxConnections = 15_000;

export interface DoorOptions {
  readonly host: string | undefined;
  readonly port: number;
  /** Passes a connection to the server. */
  readonly admit: (socket: Socket) => void;
  readonly strangerMs?: number;
}

/**
 * Accepts the connections of the controller's port. A connection without a token is a stranger; when there are too
 * many, the oldest stranger from the address with the most is closed. So no one can keep others out.
 */
export class Door {
  readonly #server: Server;
  readonly #options: DoorOptions;
  readonly #strangers = new Map<Socket, NodeJS.Timeout>();
  readonly #sockets = new Map<string, Socket>();
  /** The number of links on each connection that has shown a token. */
  readonly #links = new Map<Socket, number>();
  /** Connections that were refused. */
  readonly #leaving = new WeakSet<Socket>();

  private constructor(options: DoorOptions) {
    this.#options = options;
    this.#server = createServer({ noDelay: true, keepAlive: true }, (socket) => this.#came(socket));
    this.#server.maxConnections = maxConnections;
  }

  static async open(options: DoorOptions): Promise<Door> {
    const door = new Door(options);
    await listen(door.#server, { port: options.port, host: options.host });
    return door;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  get strangers(): number {
    return this.#strangers.size;
  }

  /** The connection from `address:port` has shown a token, and has one more link. */
  known(peer: string): void {
    const socket = this.#sockets.get(peer);
    if (socket === undefined) return;
    this.#links.set(socket, (this.#links.get(socket) ?? 0) + 1);
    this.#noStranger(socket);
  }

  /** A link has ended. Without links the connection is a stranger again. */
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

  /** Answers if a connection from this peer exists and was not refused. */
  has(peer: string): boolean {
    const socket = this.#sockets.get(peer);
    return socket !== undefined && !socket.destroyed && !this.#leaving.has(socket);
  }

  #stranger(socket: Socket, timeoutMs: number): void {
    this.#noStranger(socket);
    const timer = setTimeout(() => socket.destroy(), timeoutMs);
    this.#strangers.set(socket, timer.unref());
    if (this.#strangers.size > maxStrangers) this.#sendOneAway();
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

/** The name that grpc-js uses. */
function peerOf({ remoteAddress = '', remotePort = 0 }: Socket): string {
  return `${remoteAddress}:${remotePort}`;
}
