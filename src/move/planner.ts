import type { Pool } from '../pool/pool.ts';
import type { FoundVolume } from '../pool/pools.ts';
import { storedBytes } from '../volume/encryption.ts';
import { AlreadyExists, FailedPrecondition, InvalidArgument, NotFound } from '../volume/errors.ts';
import type { VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { smaller } from '../volume/size.ts';
import type { MoveJob } from './job.ts';
import type { MoverOptions } from './mover.ts';
import { type PeerOrder, planMs, requirePeers, snapshotsAt } from './peers.ts';
import type { OtherNode } from './snapshots/held.ts';
import type { SnapshotMover, SnapshotsPlan } from './snapshots/snapshot-mover.ts';
import { movesOf, PoolSource, type SourcePlan } from './source.ts';
import { hasMoreThanItsSize, moreThanItsSize } from './tree/room.ts';

/** A move before it starts. */
export interface MovePlan {
  readonly record: VolumeRecord;
  /** The pool that it leaves, and its node if that is another one. */
  readonly from: string;
  readonly node: string | undefined;
  readonly to: string;
  /** The record that it would have there. */
  readonly arrival: VolumeRecord;
  /** The bytes that it takes now: about what the first round copies. */
  readonly usedBytes: bigint;
  /** False: its pool cannot tell changed blocks, and it is copied while it is not in use. */
  readonly isCopiedInUse: boolean;
  readonly isInUse: boolean;
  /** The number of its snapshots in the pool that it leaves. */
  readonly snapshots: number;
  /** Set if its snapshots follow it. */
  readonly following?: SnapshotsPlan | undefined;
}

interface PlannerOptions extends Pick<MoverOptions, 'movesSnapshots' | 'objects' | 'peers' | 'pools'> {
  readonly snapshots: SnapshotMover;
  /** The move of a volume that runs here. */
  readonly running: (id: VolumeId) => MoveJob | undefined;
}

/** Plans moves: whether a volume can move, where to, and how much that is. Nothing is changed. */
export class Planner {
  readonly #options: PlannerOptions;

  constructor(options: PlannerOptions) {
    this.#options = options;
  }

  /** @throws NotFound, FailedPrecondition, InvalidArgument: why it cannot move there; nothing is changed */
  async plan(id: VolumeId, to: string, withSnapshots = false): Promise<MovePlan> {
    const { objects, peers, pools } = this.#options;
    this.#requireMayMove(id, withSnapshots);
    const { pool: from, record } = await pools.require(id);
    const target = pools.get(to);
    const following = withSnapshots ? await this.#options.snapshots.plan(id, target) : undefined;
    if (target.name === from.name) {
      if (following === undefined || following.moving.length === 0) {
        const rest = following === undefined ? '' : ', and no other pool has a snapshot of it that can move';
        throw new InvalidArgument(`volume ${id} is in pool ${to} already${rest}.`);
      }
      await requireRoom(target, following, undefined);
      return restOf(record, from.name, following);
    }
    const { why } = await movesOf(from).stateOf(id);
    // The fence of a move that failed, whose end this one does.
    if (why !== undefined)
      throw new FailedPrecondition(
        `volume ${id} of pool ${from.name} waits for the end of another move: see holdfast move status.`,
      );
    const leaving = peers?.leavingFor(id);
    if (leaving !== undefined)
      throw new FailedPrecondition(`volume ${id} is moving to node ${leaving}: see holdfast move status.`);
    const arrival = await movesOf(target).recordFor(record);
    await requireRoom(target, following, arrival);
    const plan = await new PoolSource({
      ...{ pool: from, id, moveId: '', objects },
      signal: AbortSignal.timeout(planMs),
    }).describe();
    if (plan === undefined) throw new NotFound(`volume ${id} is not in pool ${from.name} any more.`);
    requireItsSize(plan);
    return { ...planOf(plan, { node: undefined, to: target, arrival }), following };
  }

  /** Plans a move from another node. Nothing is changed. */
  async planFrom(order: Omit<PeerOrder, 'limitBytesPerSecond' | 'ticket'>): Promise<MovePlan> {
    const { id, moveId, node, to, withSnapshots } = order;
    const { peers, pools } = this.#options;
    this.#requireMayMove(id, withSnapshots === true);
    const snapshots = withSnapshots === true ? snapshotsAt(peers, order) : undefined;
    const here = snapshots && (await pools.find(id));
    if (here !== undefined && snapshots !== undefined) return this.#planRest(here, snapshots, to);
    const plan = await requirePeers(peers).source({ id, moveId, node }, AbortSignal.timeout(planMs)).describe();
    if (plan === undefined) throw new NotFound(`There is no volume ${id} on node ${node}.`);
    if (plan.state.why !== undefined && plan.state.mark.fence?.moveId !== moveId) {
      throw new FailedPrecondition(
        `volume ${id} of node ${node} is not the valid copy, or waits for the end of another move.`,
      );
    }
    requireItsSize(plan);
    const { arrival, following, pool } = await this.#roomFor(plan, to, snapshots);
    await movesOf(pool).requireNotPast(id, plan.state.mark);
    return { ...planOf(plan, { node, to: pool, arrival }), following };
  }

  /** The volume is here already, and its snapshots on another node are not. */
  async #planRest({ pool, record }: FoundVolume, from: OtherNode, to: string | undefined): Promise<MovePlan> {
    const { id } = record;
    if (to !== undefined && to !== pool.name) {
      throw new FailedPrecondition(
        `volume ${id} is in pool ${pool.name} of this node: its snapshots follow it there, and not to pool ${to}.`,
      );
    }
    const following = await this.#options.snapshots.plan(id, pool, from);
    if (following.moving.length === 0) {
      throw new InvalidArgument(
        `volume ${id} is on this node, and node ${from.node} has no snapshot of it that can move.`,
      );
    }
    await requireRoom(pool, following, undefined);
    return { ...restOf(record, pool.name, following), node: from.node };
  }

  /** The pool that a volume from another node goes to. */
  async #roomFor(
    { pool: from, record }: SourcePlan,
    to: string | undefined,
    snapshots: OtherNode | undefined,
  ): Promise<{ pool: Pool; arrival: VolumeRecord; following: SnapshotsPlan | undefined }> {
    const { pools } = this.#options;
    if ((await pools.find(record.id)) !== undefined)
      throw new AlreadyExists(`volume ${record.id} is on this node already.`);
    const usual = [from, pools.defaultName, ...pools.names()].filter((name) => pools.names().includes(name));
    let problem: unknown;
    for (const name of to === undefined ? new Set(usual) : [to]) {
      try {
        const pool = pools.get(name);
        if (to === undefined && name !== from && pool.traits.isOneVolume === true) {
          problem ??= new FailedPrecondition(
            `pool ${name} is a whole disk: a volume moves there if its name is given (--to-pool).`,
          );
          continue;
        }
        const arrival = await movesOf(pool).recordFor(record);
        const following = snapshots && (await this.#options.snapshots.plan(record.id, pool, snapshots));
        await requireRoom(pool, following, arrival);
        return { pool, arrival, following };
      } catch (error) {
        problem = error;
      }
    }
    throw problem ?? new FailedPrecondition('this node has no pool.');
  }

  #requireMayMove(id: VolumeId, withSnapshots: boolean): void {
    const running = this.#options.running(id);
    if (running !== undefined) {
      throw new FailedPrecondition(`volume ${id} is moving to pool ${running.to} already: see holdfast move status.`);
    }
    if (!withSnapshots || this.#options.movesSnapshots === true) return;
    throw new FailedPrecondition(
      'Snapshots follow a volume only where the driver has HOLDFAST_MOVE_SNAPSHOTS=true: this is experimental, and off by default.',
    );
  }
}

interface Arrival {
  readonly node: string | undefined;
  readonly to: Pool;
  readonly arrival: VolumeRecord;
}

function planOf(
  { hasChanges, isUsed, pool, record, snapshots, usedBytes }: SourcePlan,
  { arrival, node, to }: Arrival,
): MovePlan {
  return {
    ...{ record, from: pool, node, to: to.name, arrival, usedBytes, snapshots },
    ...{ isCopiedInUse: hasChanges, isInUse: isUsed },
  };
}

/** The copy of a directory would end above its size, when all of it but a little has been copied. @throws FailedPrecondition */
function requireItsSize({ record, state, usedBytes }: SourcePlan): void {
  // One that is fenced is on its way.
  if (state.why !== undefined) return;
  if (hasMoreThanItsSize(record, usedBytes)) throw new FailedPrecondition(moreThanItsSize);
}

/** The plan of a volume that is there, and some of whose snapshots are not. */
function restOf(record: VolumeRecord, pool: string, following: SnapshotsPlan): MovePlan {
  return {
    ...{ record, from: pool, node: undefined, to: pool, arrival: record, usedBytes: 0n },
    ...{ isCopiedInUse: true, isInUse: false, snapshots: 0, following },
  };
}

/** @param arrival undefined: the volume is there @throws FailedPrecondition */
async function requireRoom(
  target: Pool,
  following: SnapshotsPlan | undefined,
  arrival: VolumeRecord | undefined,
): Promise<void> {
  const { availableBytes: freeBytes } = await target.capacity();
  const [volumeBytes, snapshotBytes] = [arrival ? storedBytes(arrival) : 0n, following?.neededBytes ?? 0n];
  // The part that a failed move has left there is of this volume, too.
  const thereBytes = arrival ? await movesOf(target).comingBytes(arrival.id) : 0n;
  const availableBytes = freeBytes + smaller(thereBytes, volumeBytes);
  if (volumeBytes + snapshotBytes <= availableBytes) return;
  const snapshots = snapshotBytes === 0n ? '' : `, its snapshots up to ${snapshotBytes}`;
  throw new FailedPrecondition(
    arrival === undefined
      ? `The snapshots do not fit into pool ${target.name}: they need up to ${snapshotBytes} bytes, and ${availableBytes} are available.`
      : `volume ${arrival.id} does not fit into pool ${target.name}: it needs ${volumeBytes} bytes${snapshots}, and ${availableBytes} are available.`,
  );
}
