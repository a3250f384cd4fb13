import type { Socket } from 'node:net';

export interface StrangerLimits {
  readonly all: number;
  readonly ofAddress: number;
}

/** Where a connection comes from. A connection that has ended knows it no more. */
interface Origin {
  readonly address: string | undefined;
  readonly port: number | undefined;
}

/**
 * Connections that have shown no certificate yet, which each program that reaches the port can open. If there are too many, the
 * oldest one is closed, first one of the same address: a node shows its certificate within milliseconds, and so gets in.
 */
export class Strangers {
  readonly #limits: StrangerLimits;
  /** In the order in which they came. */
  readonly #sockets = new Map<Socket, Origin>();

  constructor(limits: StrangerLimits) {
    this.#limits = limits;
  }

  come(socket: Socket): void {
    const origin = originOf(socket);
    this.#sockets.set(socket, origin);
    socket.once('close', () => this.#sockets.delete(socket));
    const alike = [...this.#sockets].filter(([, { address }]) => address === origin.address).map(([each]) => each);
    const { all, ofAddress } = this.#limits;
    const from = alike.length > ofAddress ? alike : this.#sockets.size > all ? [...this.#sockets.keys()] : [];
    const [oldest] = from;
    if (oldest === undefined) return;
    this.#sockets.delete(oldest);
    oldest.destroy();
  }

  /** Its certificate is good. @param socket the secured one, which is another object than the one that has come */
  showedCertificate(socket: Socket): void {
    const { address, port } = originOf(socket);
    for (const [each, origin] of this.#sockets) {
      if (origin.address === address && origin.port === port) this.#sockets.delete(each);
    }
  }
}

function originOf({ remoteAddress: address, remotePort: port }: Socket): Origin {
  return { address, port };
}
