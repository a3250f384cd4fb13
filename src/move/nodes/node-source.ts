import type { z } from 'zod';
import type { Closed } from '../../pool/moves.ts';
import { NotFound } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import type { SnapshotId } from '../../volume/id.ts';
import type { Answer, Arrived, Fence, Request } from '../../volume/move/rule.ts';
import type { ReadTurns } from '../read-turns.ts';
import {
  type MoveSource,
  patiently,
  type Reading,
  type ReadRequest,
  type SourcePlan,
  type SourceSight,
} from '../source.ts';
import { NodeCalls, type NodeCallsParts } from './node-calls.ts';
import { closedIn, placeOut, recordIn, sightIn, told } from './wire.ts';

export interface NodeSourceParts extends NodeCallsParts {
  readonly turns: ReadTurns;
  readonly objects: ObjectQueue;
}

const beatMs = 10_000;

/** Another node that a volume leaves: its part is done there, and each answer belongs to a request that waits for it here. */
export class NodeSource implements MoveSource {
  readonly #parts: NodeSourceParts;
  readonly #calls: NodeCalls;
  #beat: Disposable | undefined;
  /** Ends the turn of this move to read. It stays until the move has ended once its volume is fenced. */
  #turn: Disposable | undefined;
  #sight: SourceSight | undefined;
  #isFenced = false;
  #isQueued = false;

  constructor(parts: NodeSourceParts) {
    this.#parts = parts;
    this.#calls = new NodeCalls(parts);
  }

  get node(): string {
    return this.#parts.move.node;
  }

  get title(): string {
    return `node ${this.node}`;
  }

  get isQueued(): boolean {
    return this.#isQueued;
  }

  /** A driver that is older answers at once. */
  async look(idleWithinMs?: number): Promise<SourceSight | undefined> {
    const { sight } = await this.#calls.call('look', { idleWithinMs }, told.sight);
    this.#sight = sight && this.#mine(sightIn(sight));
    return this.#sight;
  }

  async describe(): Promise<SourcePlan | undefined> {
    const { plan } = await this.#calls.call('describe', {}, told.plan);
    if (plan === undefined) return undefined;
    const { pool, snapshots, usedBytes, ...sight } = plan;
    return { ...this.#mine(sightIn(sight)), pool, snapshots, usedBytes };
  }

  async hasSnapshot(snapshot: SnapshotId): Promise<boolean> {
    return (await this.#calls.call('has-snapshot', { snapshot }, told.hasSnapshot)).isThere;
  }

  async takeSnapshot(snapshot: SnapshotId): Promise<void> {
    await this.#takeTurn(this.#isIdle);
    try {
      await this.#calls.call('take-snapshot', { snapshot }, told.done);
    } catch (error) {
      this.#endTurn();
      throw error;
    }
  }

  async removeSnapshot(snapshot: SnapshotId): Promise<void> {
    await this.#calls.call('remove-snapshot', { snapshot }, told.done);
  }

  async removeSnapshots(): Promise<void> {
    await this.#calls.call('remove-snapshots', {}, told.done);
  }

  async close({ fenceId }: Pick<Fence, 'fenceId'>): Promise<Closed | undefined> {
    // A volume in use is asked again soon, and keeps no turn from the others.
    if (!this.#isMine && !this.#isIdle && this.#parts.turns.areTaken(true)) return undefined;
    await this.#takeTurn(true);
    try {
      const { closed } = await this.#calls.call('close', { fenceId }, told.closed);
      this.#isFenced = closed !== undefined;
      return closed && this.#closed(closed);
    } finally {
      this.#endTurn();
    }
  }

  #closed(closed: z.infer<typeof told.closed>['closed'] & object): Closed {
    // The bytes that have come are still being written here, for any time: a source ends the fence of a silent target.
    this.#beat ??= this.#beating();
    return this.#mine(closedIn(closed));
  }

  #beating(): Disposable {
    const timer = setInterval(() => void this.look().catch(() => undefined), beatMs).unref();
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }

  /** No pod uses the volume, and one may wait for it. */
  get #isIdle(): boolean {
    return this.#sight?.isUsed === false;
  }

  /** The fence of this move stands, as a try before this one has left it. */
  get #isMine(): boolean {
    return this.#sight?.state.mark.fence?.moveId === this.#parts.move.moveId;
  }

  end(): void {
    this.#beat?.[Symbol.dispose]();
    this.#isFenced = false;
    this.#endTurn();
  }

  async #takeTurn(isUrgent: boolean): Promise<void> {
    if (this.#turn !== undefined) return;
    const { signal, turns } = this.#parts;
    if (this.#isMine) {
      this.#turn = turns.takeAgain();
      return;
    }
    this.#isQueued = turns.areTaken(isUrgent);
    // A source gives up a target that is silent.
    using _beat = this.#isQueued ? this.#beating() : undefined;
    try {
      this.#turn = await turns.take(isUrgent, signal);
    } finally {
      this.#isQueued = false;
    }
  }

  #endTurn(): void {
    if (this.#isFenced) return;
    this.#turn?.[Symbol.dispose]();
    this.#turn = undefined;
  }

  async open(): Promise<void> {
    await this.#calls.call('open', {}, told.done);
  }

  async read(request: ReadRequest): Promise<Reading> {
    await this.#takeTurn(request.of === undefined || this.#isIdle);
    try {
      const reading = await this.#read(request);
      const end = async () => {
        await reading[Symbol.asyncDispose]();
        this.#endTurn();
      };
      return { ...reading, [Symbol.asyncDispose]: end };
    } catch (error) {
      this.#endTurn();
      throw error;
    }
  }

  async #read({ fromBytes, of, place, signal }: ReadRequest): Promise<Reading> {
    const ask = { ...of, fromBytes: fromBytes.toString(), ...placeOut(place) };
    // The source walks a tree from its beginning.
    const firstBytes = place === undefined ? fromBytes : 0n;
    const { head, ...stream } = await this.#calls.read('read', ask, { schema: told.reading, firstBytes, signal });
    try {
      const record = recordIn(head.record);
      this.#mine({ record });
      return { ...head, ...stream, record };
    } catch (error) {
      await stream[Symbol.asyncDispose]();
      throw error;
    }
  }

  async handOver({ fenceId }: Request, commit: (answer: Answer) => Promise<void>): Promise<void> {
    const { moveId } = this.#parts.move;
    const answer = await this.#calls.call('give', { fenceId }, told.answer);
    await patiently(this.#parts, [this.#parts.move.id], () => commit(answer));
    await this.settle({ moveId, generation: answer.generation });
  }

  async settle({ generation }: Arrived): Promise<void> {
    await this.#calls.call('settle', { generation }, told.done);
  }

  async takeBack(generation: number): Promise<void> {
    await this.#calls.call('take-back', { generation }, told.done);
  }

  /** @throws NotFound if it is the record of another volume: a node speaks for the one that moves, and for no other */
  #mine<T extends { readonly record: { readonly id: string } }>(answer: T): T {
    if (answer.record.id === this.#parts.move.id) return answer;
    throw new NotFound(`node ${this.node} has answered for another volume than ${this.#parts.move.id}.`);
  }
}
