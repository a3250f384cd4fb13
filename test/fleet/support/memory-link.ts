import { setImmediate as nextTurn } from 'node:timers/promises';
import { contract, decode, encode } from '../../../src/csi/contract.ts';
import type * as wire from '../../../src/csi/generated/types.ts';
import type { Draft } from '../../../src/csi/handler.ts';
import type { ControllerPipe } from '../../../src/fleet/controller/node-session.ts';
import type { Pipe } from '../../../src/fleet/link/pipe.ts';
import type { NodePipe } from '../../../src/fleet/node/node-link.ts';
import type { Random } from '../../support/random.ts';

const fromNode = contract.lookupType('holdfast.fleet.v1.FromNode');
const fromController = contract.lookupType('holdfast.fleet.v1.FromController');
type Named = typeof fromNode;

/** What goes wrong with a link. */
export interface Faults {
  readonly random: Random;
  /** The link is cut when so many messages have been handed over, whichever way; the next one is lost. */
  readonly cutAfter: number;
  /** One answer of so many comes twice; 0: none. */
  readonly twiceOf: number;
}

/** A connection in memory, over the real bytes: messages come in order, after a while, until it is cut. */
export class MemoryLink {
  readonly node: NodePipe;
  readonly controller: ControllerPipe;
  readonly #faults: Faults;
  readonly #ends: ((reason: string) => void)[] = [];
  #delivered = 0;
  #reason: string | undefined;

  constructor(faults: Faults) {
    this.#faults = faults;
    const [toController, toNode] = [new Queue<wire.FromNode>(), new Queue<wire.FromController>()];
    this.node = this.#end<Draft<wire.FromNode>, wire.FromController>(fromNode, toController, toNode, fromController);
    this.controller = this.#end<Draft<wire.FromController>, wire.FromNode>(
      fromController,
      toNode,
      toController,
      fromNode,
    );
  }

  cut(reason: string): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    for (const listener of this.#ends) listener(reason);
  }

  #end<Out extends object, In>(outType: Named, out: Direction, from: Queue<In>, inType: Named): Pipe<Out, In> {
    from.read = (bytes) => decode<In>(inType, bytes);
    return {
      send: (message) => void this.#carry(out, encode(outType, message), 'answer' in message),
      onMessage: (listener) => from.open(listener),
      onEnd: (listener) => void this.#ends.push(listener),
      end: (reason) => this.cut(reason),
    };
  }

  async #carry(queue: Direction, bytes: Buffer, isAnswer: boolean): Promise<void> {
    const { cutAfter, random, twiceOf } = this.#faults;
    const turns = random.integer(0, 3);
    const times = isAnswer && twiceOf > 0 && random.integer(1, twiceOf) === 1 ? 2 : 1;
    const before = queue.last;
    const carried = (async () => {
      await before;
      for (let turn = 0; turn < turns; turn++) await nextTurn();
      for (let time = 0; time < times && this.#reason === undefined; time++) {
        if (this.#delivered++ >= cutAfter) this.cut('cut by the test');
        else queue.deliver(bytes);
      }
    })();
    queue.last = carried;
    await carried;
  }
}

/** Where messages go, whatever they are. */
interface Direction {
  last: Promise<void>;
  deliver(bytes: Buffer): void;
}

/** One direction; what comes before anybody listens waits. */
class Queue<In> {
  last: Promise<void> = Promise.resolve();
  read: (bytes: Buffer) => In = () => {
    throw new Error('nobody reads here');
  };
  #listener: ((message: In) => void) | undefined;
  #early: Buffer[] = [];

  open(listener: (message: In) => void): void {
    this.#listener = listener;
    for (const bytes of this.#early.splice(0)) listener(this.read(bytes));
  }

  deliver(bytes: Buffer): void {
    if (this.#listener === undefined) this.#early.push(bytes);
    else this.#listener(this.read(bytes));
  }
}
