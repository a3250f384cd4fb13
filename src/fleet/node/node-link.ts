import type { Logger } from 'pino';
import type { Calls } from '../../csi/call.ts';
import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import type { Pools } from '../../pool/pools.ts';
import { type Pipe, Pulse, protocolVersion, usualBeatMs } from '../link/pipe.ts';
import { CapacityTeller } from './capacity-teller.ts';
import { InventoryTeller } from './inventory-teller.ts';
import { LinkCalls } from './link-calls.ts';
import { MovesTeller, type NodeMoves } from './moves.ts';

export type NodePipe = Pipe<Draft<wire.FromNode>, wire.FromController>;

export interface NodeLinkOptions {
  readonly hello: Omit<Draft<wire.NodeHello>, 'protocol'>;
  readonly calls: Calls;
  readonly pools: Pick<Pools, 'known' | 'statuses' | 'ready'>;
  readonly log: Logger;
  /** undefined: its volumes do not move to other nodes. */
  readonly moves?: NodeMoves | undefined;
}

/** Certificates are for 30 days, and a link may last longer. */
const certifyMs = 86_400_000;
/** After a certificate could not be used: another program has the port. */
const certifyAgainMs = 30_000;

/** The node's end of one link, from its hello to its end. */
export class NodeLink {
  readonly #pipe: NodePipe;
  readonly #options: NodeLinkOptions;
  readonly #inventory: InventoryTeller;
  readonly #capacity: CapacityTeller;
  readonly #calls: LinkCalls;
  readonly #moves: MovesTeller | undefined;
  #pulse: Pulse;
  #isWelcome = false;
  #certifying: NodeJS.Timeout | undefined;
  #certifyingAgain: NodeJS.Timeout | undefined;
  #replica = '';

  constructor(pipe: NodePipe, options: NodeLinkOptions) {
    this.#pipe = pipe;
    this.#options = options;
    this.#inventory = new InventoryTeller(options.pools, (inventory) => pipe.send({ inventory }));
    this.#capacity = new CapacityTeller(options.calls, (capacity) => pipe.send({ capacity }));
    this.#moves = options.moves && new MovesTeller(options.moves, (message) => pipe.send(message));
    this.#calls = new LinkCalls(options.calls, {
      send: (message) => pipe.send(message),
      // Reports before it answers: a caller that knows of a deletion must not find the object in a later report.
      beforeAnswer: () => this.#inventory.tell(),
    });
    this.#pulse = this.#beatEvery(usualBeatMs);
    pipe.onEnd(() => {
      this.#pulse[Symbol.dispose]();
      clearInterval(this.#certifying);
      clearTimeout(this.#certifyingAgain);
      this.#calls.abandonStreams();
    });
    pipe.onMessage((message) => this.#receive(message));
    pipe.send({ hello: { ...options.hello, protocol: protocolVersion } });
  }

  /** True if the controller has accepted the node. */
  get isWelcome(): boolean {
    return this.#isWelcome;
  }

  /** The instance of the replica; empty: not known yet. */
  get replica(): string {
    return this.#replica;
  }

  /** Reports changes, if there are any. */
  async look(): Promise<void> {
    if (!this.#isWelcome) return;
    await this.#inventory.tell();
    await this.#capacity.tell();
  }

  /** They are not known at once when a driver starts. */
  tellMoves(): void {
    if (this.#isWelcome) this.#moves?.tell();
  }

  renew(token: string): void {
    this.#pipe.send({ renewal: { token } });
  }

  /** Asks for no new calls; running ones are answered. */
  leave(): void {
    this.#pipe.send({ leaving: {} });
  }

  end(reason: string): void {
    this.#pipe.end(reason);
  }

  #receive(message: wire.FromController): void {
    this.#pulse.heard();
    const { call, cancel, capacity, certificate, credit, welcome } = message;
    if (welcome) this.#welcomed(welcome);
    else if (call) void this.#calls.run(call);
    else if (cancel) this.#calls.cancel(cancel.call);
    else if (credit) this.#calls.addCredit(credit);
    else if (capacity) void this.#capacity.ask(capacity);
    else if (certificate) void this.#certified(certificate);
    // Other messages come from a newer controller, and can be ignored.
  }

  #welcomed({ beat_milliseconds: beatMs, controller, instance }: wire.Welcome): void {
    this.#replica = instance;
    if (this.#options.hello.linked_to?.includes(instance) === true) {
      this.#pipe.end(`${controller} is linked by another of its addresses`);
      return;
    }
    this.#pulse[Symbol.dispose]();
    this.#pulse = this.#beatEvery(beatMs > 0 ? beatMs : usualBeatMs);
    this.#isWelcome = true;
    this.#options.log.info({ controller }, 'linked to the controller');
    this.#moves?.askForCertificate();
    this.#certifying = setInterval(() => this.#moves?.askForCertificate(), certifyMs).unref();
    this.look().catch((error: unknown) => this.#options.log.error({ err: error }, 'cannot send the inventory'));
  }

  async #certified(certificate: wire.NodeCertificate): Promise<void> {
    await this.#moves?.certified(certificate).catch((error: unknown) => {
      this.#options.log.error(
        { err: error },
        'this node cannot serve volumes that move to other nodes, and tries again',
      );
      clearTimeout(this.#certifyingAgain);
      this.#certifyingAgain = setTimeout(() => this.#moves?.askForCertificate(), certifyAgainMs).unref();
    });
  }

  #beatEvery(beatMs: number): Pulse {
    return new Pulse(beatMs, {
      beat: () => this.#pipe.send({ beat: {} }),
      isDead: (silentMs) => this.#pipe.end(`the controller sent nothing for ${silentMs} ms`),
    });
  }
}
