import type { Duplex } from 'node:stream';
import type { z } from 'zod';
import { serializeMark } from '../../pool/catalog/move-mark.ts';
import { FailedPrecondition, NotFound } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import type { SnapshotId } from '../../volume/id.ts';
import { serializeSnapshot } from '../../volume/snapshot-record.ts';
import type { PeerMove } from '../peers.ts';
import type { PoolHeld } from '../snapshots/held.ts';
import { patiently } from '../source.ts';
import { type Heard, sendPieces } from './sending.ts';
import type { SnapshotLeavings } from './snapshot-leavings.ts';
import { asked, longestBodyBytes, parsed, type SnapshotOperation } from './wire.ts';

export interface SnapshotAnswersParts {
  readonly leavings: SnapshotLeavings;
  readonly objects: ObjectQueue;
  readonly move: PeerMove;
  /** Aborted when the other node waits for the answer no more. */
  readonly gone: AbortSignal;
}

/** The bytes of snapshots in one answer, which has a frame. */
const pageBytes = longestBodyBytes - 16 * 1024;

/** The answers to another node about the snapshots of a volume that follow it there. */
export class SnapshotAnswers {
  readonly #parts: SnapshotAnswersParts;

  constructor(parts: SnapshotAnswersParts) {
    this.#parts = parts;
  }

  async answer(operation: Exclude<SnapshotOperation, 'read-snapshot'>, body: string): Promise<object> {
    const { leavings, move } = this.#parts;
    switch (operation) {
      case 'snapshots-begin':
        await leavings.begin(move);
        return {};
      case 'snapshots-end':
        await leavings.end(move, parsed(asked.snapshotsEnd, body).state);
        return {};
      case 'snapshots':
        return this.#page(parsed(asked.snapshots, body).after);
      case 'snapshot-look':
        return this.#look(parsed(asked.snapshotLook, body));
      case 'snapshot-share': {
        const { beside, unitBytes, ...named } = parsed(asked.share, body);
        const { ownBytes, wholeBytes } = await (await this.#find(named)).share(beside, unitBytes);
        return { wholeBytes: wholeBytes.toString(), ownBytes: ownBytes.toString() };
      }
      case 'snapshot-close': {
        const { to, ...named } = parsed(asked.snapshotClose, body);
        return this.#alone(named, (held) => held.close(to, move.node));
      }
      case 'snapshot-open':
        await this.#alone(parsed(asked.copy, body), async (held) => {
          if (await this.#isForMove(held)) await held.open();
        });
        return {};
      case 'snapshot-give': {
        const { fenceId, moveId, ...named } = parsed(asked.give, body);
        return this.#alone(named, async (held) => {
          // The fence of another node, or of a pool of this one, is for that alone.
          if (!(await this.#isForMove(held))) throw notFor(named.snapshot, move.node);
          // Its removal may have been cut short: it is tried again, and no copy must be the snapshot then.
          if (leavings.isRemoving(move.id, named.snapshot, named.createdAt)) throw isDeleted(named.snapshot);
          return held.give({ moveId, fenceId });
        });
      }
      case 'snapshot-settle':
        return this.#settle(parsed(asked.arrived, body));
      case 'snapshot-take-back': {
        const { generation, ...named } = parsed(asked.arrived, body);
        await this.#alone(named, async (held) => {
          if (await this.#isForMove(held)) await held.takeBack(generation);
        });
        return {};
      }
    }
  }

  async read(socket: Duplex, ask: string, heard: Heard): Promise<void> {
    const { leavings, move, gone } = this.#parts;
    const { fenceId, fromBytes, ...named } = parsed(asked.readSnapshot, ask);
    await leavings.reading(named.snapshot, move, async (ended) => {
      ended.addEventListener('abort', () => socket.destroy(), { once: true });
      const held = await this.#find(named);
      const fence = (await held.look())?.mark.fence;
      if (fence?.fenceId !== fenceId || fence.to !== move.node) throw notFor(named.snapshot, move.node);
      await using reading = await held.read(fence, fromBytes);
      const { endBytes, totalBytes } = reading;
      const head = { endBytes: endBytes.toString(), totalBytes: totalBytes.toString() };
      ended.throwIfAborted();
      gone.throwIfAborted();
      await sendPieces(socket, { head, pieces: reading.pieces }, heard);
    });
  }

  async #page(after: SnapshotId | undefined): Promise<object> {
    const { leavings, move } = this.#parts;
    const all = await leavings.all(move.id);
    const rest = after === undefined ? all : all.slice(all.findIndex(({ record }) => record.id === after) + 1);
    const snapshots: object[] = [];
    let bytes = 0;
    for (const { hasChanges, pool, record, whyStays } of rest) {
      const shown = { record: serializeSnapshot(record), pool, whyStays, hasChanges };
      bytes += JSON.stringify(shown).length;
      if (bytes > pageBytes && snapshots.length > 0) break;
      snapshots.push(shown);
    }
    return { snapshots, isLast: snapshots.length === rest.length };
  }

  async #look({ createdAt, isVerified, snapshot }: z.infer<typeof asked.snapshotLook>): Promise<object> {
    const { leavings, move } = this.#parts;
    const held = await leavings.copy(move.id, snapshot, createdAt);
    const state = await (isVerified === true ? held?.verified() : held?.look());
    if (state !== undefined) return { copy: { mark: serializeMark(state.mark), why: state.why } };
    return { isDeleted: await leavings.wasRemoved(move.id, snapshot, createdAt) };
  }

  /** A copy goes only if the snapshot was handed over to that node, by the mark or by the note of this one. */
  #settle({ generation, ...named }: z.infer<typeof asked.arrived>): Promise<object> {
    const { leavings, move } = this.#parts;
    return this.#claimed(named.snapshot, async () => {
      const held = await leavings.copy(move.id, named.snapshot, named.createdAt);
      const state = await held?.look();
      // The other node removes its copy once it hears that this one was taken back, and deleted.
      if (held === undefined || state === undefined) {
        return { isSettled: !(await leavings.wasRemoved(move.id, named.snapshot, named.createdAt)) };
      }
      const isTo = state.mark.fence?.to === move.node || (await leavings.wentTo(named.snapshot)) === move.node;
      const isGiven = state.why === 'given' && isTo;
      return { isSettled: isGiven && (await held.settle(generation)) };
    });
  }

  async #isForMove(held: PoolHeld): Promise<boolean> {
    return (await held.look())?.mark.fence?.to === this.#parts.move.node;
  }

  #find({ createdAt, snapshot }: Named): Promise<PoolHeld> {
    const { leavings, move } = this.#parts;
    return leavings.find(move.id, snapshot, createdAt);
  }

  /** A step that leaves something here: no other call has the snapshot meanwhile. */
  #alone<T>(named: Named, work: (held: PoolHeld) => Promise<T>): Promise<T> {
    return this.#claimed(named.snapshot, async () => {
      this.#parts.leavings.requireRunning(this.#parts.move);
      return work(await this.#find(named));
    });
  }

  #claimed<T>(snapshot: SnapshotId, work: () => Promise<T>): Promise<T> {
    const { gone, objects } = this.#parts;
    return patiently({ objects, signal: gone }, [snapshot], work);
  }
}

type Named = z.infer<typeof asked.copy>;

function isDeleted(snapshot: SnapshotId): NotFound {
  return new NotFound(`snapshot ${snapshot} is being deleted on the node that it leaves: it is not handed over.`);
}

function notFor(snapshot: SnapshotId, node: string): FailedPrecondition {
  return new FailedPrecondition(`snapshot ${snapshot} is not fenced for its move to node ${node} any more.`);
}
