import type { Closed } from '../../pool/moves.ts';
import { NotFound } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import type { SnapshotId } from '../../volume/id.ts';
import type { Answer, Arrived, Fence, Request } from '../../volume/move/rule.ts';
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
  readonly objects: ObjectQueue;
}

/** Another node that a volume leaves: its part is done there, and each answer belongs to a request that waits for it here. */
export class NodeSource implements MoveSource {
  readonly #parts: NodeSourceParts;
  readonly #calls: NodeCalls;

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

  /** A driver that is older answers at once. */
  async look(idleWithinMs?: number): Promise<SourceSight | undefined> {
    const { sight } = await this.#calls.call('look', { idleWithinMs }, told.sight);
    return sight && this.#mine(sightIn(sight));
  }

  /** A driver that is older looks at no data. */
  async verified(): Promise<void> {
    await this.#calls.call('look', { isVerified: true }, told.sight);
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
    await this.#calls.call('take-snapshot', { snapshot }, told.done);
  }

  async removeSnapshot(snapshot: SnapshotId): Promise<void> {
    await this.#calls.call('remove-snapshot', { snapshot }, told.done);
  }

  async removeSnapshots(): Promise<void> {
    await this.#calls.call('remove-snapshots', {}, told.done);
  }

  async close({ fenceId }: Pick<Fence, 'fenceId'>): Promise<Closed | undefined> {
    const { closed } = await this.#calls.call('close', { fenceId }, told.closed);
    return closed && this.#mine(closedIn(closed));
  }

  async open(): Promise<void> {
    await this.#calls.call('open', {}, told.done);
  }

  async read({ fromBytes, of, place, signal }: ReadRequest): Promise<Reading> {
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
