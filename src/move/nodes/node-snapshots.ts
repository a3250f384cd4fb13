import { parseMark } from '../../pool/catalog/move-mark.ts';
import type { CopyState } from '../../pool/moves.ts';
import { NotFound } from '../../volume/errors.ts';
import type { SnapshotId } from '../../volume/id.ts';
import type { Answer, Fence, LostNode, Request } from '../../volume/move/rule.ts';
import { parseSnapshot, type SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { Held, HeldReading, OtherNode } from '../snapshots/held.ts';
import { inOrder } from '../snapshots/held.ts';
import type { ShareBytes } from '../snapshots/share.ts';
import type { ReadTurns } from '../turns/read-turns.ts';
import { NodeCalls, type NodeCallsParts } from './node-calls.ts';
import { told } from './wire.ts';

export interface NodeSnapshotsParts extends NodeCallsParts {
  readonly turns: ReadTurns;
}

const where = 'that the other node has sent';

/** The snapshots of a volume on another node: its part is done there, and each answer belongs to a request that waits for it here. */
export class NodeSnapshots implements OtherNode {
  readonly #parts: NodeSnapshotsParts;
  readonly #calls: NodeCalls;

  constructor(parts: NodeSnapshotsParts) {
    this.#parts = parts;
    this.#calls = new NodeCalls(parts);
  }

  get node(): string {
    return this.#parts.move.node;
  }

  async begin(): Promise<void> {
    await this.#calls.call('snapshots-begin', {}, told.done);
  }

  async end(state: 'cancelled' | 'done'): Promise<void> {
    await this.#calls.call('snapshots-end', { state }, told.done);
  }

  async all(): Promise<Held[]> {
    const found: NodeHeld[] = [];
    for (;;) {
      const after = found.at(-1)?.record.id;
      const { isLast, snapshots } = await this.#calls.call('snapshots', { after }, told.snapshots);
      for (const { record, ...told_ } of snapshots) {
        found.push(
          new NodeHeld(this.#parts, this.#calls, { ...told_, record: this.#mine(parseSnapshot(record, where)) }),
        );
      }
      // A node that goes on for ever sends nothing new at some time.
      if (isLast || snapshots.length === 0 || found.length > maxSnapshots) return inOrder(found);
    }
  }

  look(snapshot: SnapshotId, createdAt: string): Promise<CopyState | undefined> {
    return lookAt(this.#calls, { snapshot, createdAt });
  }

  verified(snapshot: SnapshotId, createdAt: string): Promise<CopyState | undefined> {
    return lookAt(this.#calls, { snapshot, createdAt, isVerified: true });
  }

  async wasDeleted(snapshot: SnapshotId, createdAt: string): Promise<boolean> {
    return (await this.#calls.call('snapshot-look', { snapshot, createdAt }, told.copy)).isDeleted === true;
  }

  /** @throws NotFound if it is of another volume: a node speaks for the one that moves, and for no other */
  #mine(record: SnapshotRecord): SnapshotRecord {
    const { id, node } = this.#parts.move;
    if (record.sourceId === id) return record;
    throw new NotFound(`node ${node} has answered for a snapshot of another volume than ${id}.`);
  }
}

async function lookAt(
  calls: NodeCalls,
  named: { readonly snapshot: SnapshotId; readonly createdAt: string; readonly isVerified?: true },
): Promise<CopyState | undefined> {
  const { copy } = await calls.call('snapshot-look', named, told.copy);
  return copy && { mark: parseMark(copy.mark, where), why: copy.why };
}

/** More than a volume has. */
const maxSnapshots = 100_000;

interface Told extends Pick<Held, 'hasChanges' | 'pool' | 'record'> {
  readonly whyStays?: string | undefined;
}

class NodeHeld implements Held {
  readonly record: SnapshotRecord;
  readonly pool: string;
  readonly node: string;
  readonly whyStays: string | undefined;
  readonly hasChanges: boolean;
  readonly #calls: NodeCalls;
  readonly #turns: ReadTurns;

  constructor({ move, turns }: NodeSnapshotsParts, calls: NodeCalls, { hasChanges, pool, record, whyStays }: Told) {
    this.record = record;
    this.pool = pool;
    this.node = move.node;
    this.whyStays = whyStays;
    this.hasChanges = hasChanges;
    this.#calls = calls;
    this.#turns = turns;
  }

  look(): Promise<CopyState | undefined> {
    return lookAt(this.#calls, this.#named);
  }

  verified(): Promise<CopyState | undefined> {
    return lookAt(this.#calls, { ...this.#named, isVerified: true });
  }

  share(beside: SnapshotId | undefined, unitBytes: bigint): Promise<ShareBytes> {
    return this.#calls.call('snapshot-share', { ...this.#named, beside, unitBytes: `${unitBytes}` }, told.share);
  }

  close(to: string): Promise<Fence> {
    return this.#calls.call('snapshot-close', { ...this.#named, to }, told.fence);
  }

  async open(): Promise<void> {
    await this.#calls.call('snapshot-open', this.#named, told.done);
  }

  async read({ fenceId }: Fence, fromBytes: bigint, signal: AbortSignal): Promise<HeldReading> {
    const turn = await this.#turns.take(false, signal);
    try {
      const ask = { ...this.#named, fenceId, fromBytes: `${fromBytes}` };
      const wish = { schema: told.snapshotReading, firstBytes: fromBytes, signal };
      const { head, pieces, ...stream } = await this.#calls.read('read-snapshot', ask, wish);
      const end = async () => {
        await stream[Symbol.asyncDispose]();
        turn[Symbol.dispose]();
      };
      return { ...head, pieces, [Symbol.asyncDispose]: end };
    } catch (error) {
      turn[Symbol.dispose]();
      throw error;
    }
  }

  give({ fenceId, moveId }: Request): Promise<Answer> {
    return this.#calls.call('snapshot-give', { ...this.#named, moveId, fenceId }, told.answer);
  }

  async settle(generation: number): Promise<boolean> {
    return (await this.#calls.call('snapshot-settle', { ...this.#named, generation }, told.settled)).isSettled;
  }

  /** @param word never that this node is lost: it asks */
  async takeBack(word?: number | LostNode): Promise<void> {
    if (typeof word !== 'number') throw new NotFound(`node ${this.node} takes snapshot ${this.record.id} back alone.`);
    await this.#calls.call('snapshot-take-back', { ...this.#named, generation: word }, told.done);
  }

  get #named() {
    const { createdAt, id } = this.record;
    return { snapshot: id, createdAt };
  }
}
