import type { Logger } from 'pino';
import type * as wire from '../../csi/generated/types.ts';
import type { Draft } from '../../csi/handler.ts';
import { BadToken } from '../kubernetes/token-review.ts';
import { type Pipe, Pulse, protocolVersion, usualBeatMs } from '../link/pipe.ts';
import { linkRefused } from './events.ts';
import type { FleetMoves } from './fleet-moves.ts';
import type { FleetState } from './fleet-state.ts';
import { ForwardedCalls } from './forwarded-calls.ts';
import { BadInventory, type NodeInventory } from './inventory.ts';

/** Pauses between two tries to have a new token reviewed. */
const shortestRenewalMs = 1_000;
const longestRenewalMs = 30_000;

export type ControllerPipe = Pipe<Draft<wire.FromController>, wire.FromNode>;

export interface SessionOptions {
  /** From the token: a node can speak only for itself. */
  readonly node: string;
  readonly driverName: string;
  readonly controller: string;
  /** Id of the replica's process: a new one at each start. */
  readonly instance: string;
  readonly beatMs?: number;
  readonly state: FleetState;
  readonly log: Logger;
  /** Reviews a new token; rejects if it does not belong to this node. */
  readonly renew: (token: string) => Promise<void>;
  /** Answers if the node has another link to this replica. */
  readonly hasOther: () => boolean;
  /** Called after the node's hello: it can be called. */
  readonly onReady: (session: NodeSession) => void;
  readonly onEnd: (session: NodeSession) => void;
  /** undefined: no volumes move between nodes. */
  readonly moves?: Pick<FleetMoves, 'certify' | 'told'> | undefined;
  /** Where the link comes from. */
  readonly host?: string;
}

/** The controller's end of one link, from the node's hello to its end. */
export class NodeSession {
  readonly node: string;
  readonly calls: ForwardedCalls;
  /** The node's reports of its capacity, by the question. */
  readonly capacity = new Map<bigint, Buffer>();
  readonly #pipe: ControllerPipe;
  readonly #options: SessionOptions;
  readonly #pulse: Pulse;
  /** Version of the driver, from the hello. */
  driverVersion = '';
  readonly #asked = new Set<bigint>();
  readonly #capacityWaits = new Map<bigint, (() => void)[]>();
  #inventory: NodeInventory | undefined;
  #hasEnded = false;
  #renewals = 0;

  constructor(pipe: ControllerPipe, options: SessionOptions) {
    const beatMs = options.beatMs ?? usualBeatMs;
    this.node = options.node;
    this.#pipe = pipe;
    this.#options = options;
    this.calls = new ForwardedCalls(options.node, (message) => pipe.send(message));
    this.#pulse = new Pulse(beatMs, {
      beat: () => pipe.send({ beat: {} }),
      isDead: (silentMs) => this.end(`it sent nothing for ${silentMs} ms`),
    });
    pipe.onEnd((reason) => this.#ended(reason));
    pipe.onMessage((message) => this.#receive(message, beatMs));
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  end(reason: string): void {
    this.#pipe.end(reason);
    this.#ended(reason);
  }

  /** Asks the node to report its answer of GetCapacity from now on. @returns true if no report has come yet */
  ask(question: bigint, request: Buffer): boolean {
    if (!this.#asked.has(question)) {
      this.#asked.add(question);
      this.#pipe.send({ capacity: { question, request } });
    }
    return !this.capacity.has(question);
  }

  /** Resolves when the node has answered the question, or its link has ended. */
  capacityTold(question: bigint): Promise<void> {
    if (this.capacity.has(question) || this.#hasEnded) return Promise.resolve();
    return new Promise((resolve) => {
      this.#capacityWaits.set(question, [...(this.#capacityWaits.get(question) ?? []), resolve]);
    });
  }

  #receive(message: wire.FromNode, beatMs: number): void {
    if (this.#hasEnded) return;
    this.#pulse.heard();
    const { answer, capacity, certificate, hello, inventory, leaving, moves, part, renewal } = message;
    if (hello) this.#hello(hello, beatMs);
    // The first message must be a hello, which identifies the node.
    else if (this.#inventory === undefined) this.end('it sent no hello');
    else if (inventory) this.#told(inventory, this.#inventory);
    else if (answer) this.calls.answered(answer);
    else if (part) this.calls.part(part);
    else if (capacity) this.#toldCapacity(capacity);
    else if (renewal) this.#renew(renewal.token);
    else if (moves) this.#options.moves?.told(this.node, moves);
    else if (certificate) this.#certify(certificate);
    else if (leaving) this.calls.refuse('its driver is stopping');
    // Other messages come from a newer driver, and can be ignored.
  }

  #hello(hello: wire.NodeHello, beatMs: number): void {
    const { controller, hasOther, instance: replica, log, node, onReady, state } = this.#options;
    const refusal = this.#refusal(hello);
    if (refusal !== undefined) {
      linkRefused.publish({ reason: 'hello' });
      this.end(refusal);
      return;
    }
    const protocol = Math.min(hello.protocol, protocolVersion);
    const welcome = { protocol, controller, beat_milliseconds: beatMs, instance: replica };
    // The node came by another address of this replica: the existing link is good, and the node ends this one.
    if (hello.linked_to.includes(replica) && hasOther()) {
      this.#pipe.send({ welcome });
      return;
    }
    this.#inventory = state.linked(node);
    const { instance } = hello;
    const version = hello.driver_version.slice(0, 64);
    this.driverVersion = version;
    log.info({ node, version, instance: instance.slice(0, 64), protocol }, 'linked');
    this.#pipe.send({ welcome });
    onReady(this);
  }

  #refusal({ driver_name, node_id }: wire.NodeHello): string | undefined {
    const { driverName, node } = this.#options;
    if (this.#inventory !== undefined) return 'it said hello twice';
    if (node_id !== node) return `it speaks for ${JSON.stringify(node_id.slice(0, 64))} with the token of ${node}`;
    return driver_name === driverName ? undefined : 'it is a node of another driver';
  }

  #told(change: wire.InventoryChange, inventory: NodeInventory): void {
    const { log, state } = this.#options;
    try {
      const wasComplete = inventory.isComplete;
      inventory.apply(change);
      state.told(this.node, inventory);
      if (inventory.isComplete && !wasComplete) {
        log.info({ node: this.node, entries: inventory.entries.size }, 'inventory complete');
      }
    } catch (error) {
      if (!(error instanceof BadInventory)) throw error;
      this.end(error.message);
    }
  }

  #certify(request: wire.CertificateRequest): void {
    const { host = '', log, moves } = this.#options;
    try {
      const certificate = moves?.certify(this.node, request, host);
      if (certificate !== undefined) this.#pipe.send({ certificate });
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown';
      log.warn({ node: this.node, reason }, 'a node gets no certificate for moves of volumes');
    }
  }

  #toldCapacity({ question, response }: wire.CapacityTold): void {
    if (!this.#asked.has(question)) return;
    this.capacity.set(question, Buffer.from(response));
    for (const wake of this.#capacityWaits.get(question) ?? []) wake();
    this.#capacityWaits.delete(question);
  }

  #renew(token: string): void {
    this.#renewals++;
    void this.#tryToRenew(token, this.#renewals);
  }

  /**
   * Only an invalid token ends a link. If the API server cannot review one for now, the review is repeated: until the
   * old token expires the link is good, and a new link would need a review, too.
   */
  async #tryToRenew(token: string, renewal: number): Promise<void> {
    const { log, node, renew } = this.#options;
    for (let pauseMs = shortestRenewalMs; ; pauseMs = Math.min(2 * pauseMs, longestRenewalMs)) {
      try {
        return await renew(token);
      } catch (error) {
        const reason = error instanceof Error ? error.message : 'refused';
        if (error instanceof BadToken) return this.end(`its new token is invalid: ${reason}`);
        log.warn({ node, reason }, 'cannot review the new token of a node; retrying');
      }
      await new Promise<void>((resolve) => setTimeout(resolve, pauseMs).unref());
      // Another token has come meanwhile, or none is needed any more.
      if (this.#hasEnded || renewal !== this.#renewals) return;
    }
  }

  #ended(reason: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#pulse[Symbol.dispose]();
    const { log, onEnd } = this.#options;
    log.warn({ node: this.node, reason }, 'a link has ended');
    this.calls.fail(reason);
    for (const waits of this.#capacityWaits.values()) for (const wake of waits) wake();
    onEnd(this);
  }
}
