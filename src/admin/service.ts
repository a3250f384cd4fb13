import { findHolders } from '../kernel/process/holders.ts';
import { type Deadline, deadlineOf, isLate, requireInTime } from '../move/in-time.ts';
import type { Mover } from '../move/mover.ts';
import { poolWithWhole } from '../move/rests.ts';
import { isEarlierInTrash, isLaterTrashed, latestTrashed, type TrashedHere } from '../move/trashed-copy.ts';
import { unknownPart } from '../move/undo.ts';
import { soughtOf } from '../pool/attached-mounts.ts';
import { conditionIn, conditionsIn, silentAfterMs } from '../pool/condition.ts';
import type { VolumeSource } from '../pool/node-side.ts';
import type { Attached, Pool, TrashedVolume } from '../pool/pool.ts';
import type { Pools } from '../pool/pools.ts';
import { claimOf } from '../volume/claim.ts';
import { AlreadyExists, FailedPrecondition, HoldfastError, NotFound, Unavailable } from '../volume/errors.ts';
import { finishAll } from '../volume/flow/finish-all.ts';
import { type ObjectQueue, volumeNameKey } from '../volume/flow/object-queue.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import type { VolumeHandle } from '../volume/handle.ts';
import { parseVolumeId, type VolumeId } from '../volume/id.ts';
import { type CopyMark, isEarlier, isVolume } from '../volume/move/rule.ts';
import { type AdoptionRequest, adopt, release } from './adoption.ts';
import { asOf, type LeftHere, requireWord } from './left-copy.ts';
import { cancelMove, finishMove, listMoves, type MoveRequest, planMove, startMove } from './moving.ts';
import type {
  Adopted,
  ConditionList,
  HolderList,
  MoveList,
  Moving,
  PlannedMove,
  PoolList,
  Purged,
  Released,
  Restored,
  StartedMove,
  TrashedVolumeSight,
  TrashList,
} from './protocol.ts';

/** Facts about the call that an operation gets. */
export interface AdminCall {
  /** Time at which its caller waits no more; undefined: it always waits. */
  readonly deadline?: Date | undefined;
  /** Adds fields to the call's log line. */
  note(fields: Readonly<Record<string, string | number>>): void;
}

export type AdminHandler<Q, R> = (request: Q, call: AdminCall) => Promise<R>;

/** The operations that an operator can ask of the running driver. */
export interface AdminHandlers {
  readonly listPools: AdminHandler<object, PoolList>;
  readonly listTrash: AdminHandler<object, TrashList>;
  /** The volumes that something is wrong with. */
  readonly listConditions: AdminHandler<object, ConditionList>;
  /** `lostNode`: the node that it has moved to, which never comes back. */
  readonly restore: AdminHandler<RestoreOrder, Restored>;
  /** Without an id: purges the whole trash. */
  readonly purge: AdminHandler<{ readonly id?: VolumeId | undefined }, Purged>;
  readonly adopt: AdminHandler<AdoptionRequest, Adopted>;
  /** Without a path: to its origin. */
  readonly release: AdminHandler<{ readonly id: VolumeId; readonly to?: string | undefined }, Released>;
  readonly holders: AdminHandler<{ readonly id: VolumeHandle }, HolderList>;
  readonly planMove: AdminHandler<MoveRequest, PlannedMove>;
  readonly startMove: AdminHandler<MoveRequest, StartedMove>;
  readonly cancelMove: AdminHandler<CancelOrder, Moving>;
  /** Ends a move whose source is lost. */
  readonly finishMove: AdminHandler<FinishOrder, Moving>;
  readonly listMoves: AdminHandler<object, MoveList>;
}

export interface VolumeOfLostNode {
  readonly id: VolumeId;
  readonly lostNode?: string | undefined;
  /** The generation of the copy of it that became the volume by such a word before, as the controller knows. */
  readonly laterThan?: number | undefined;
  /** The number of words after that one of which nothing is known (`LostNode`). */
  readonly words?: number | undefined;
}

export interface VolumeOfLost extends VolumeOfLostNode {
  /** The pool of this node that it has moved to, or leaves, whose disk is lost. */
  readonly lostPool?: string | undefined;
}

/** The word of the node that a volume was handed over to, which has nothing of it, as the controller brings it (`Mover.disclaim`). */
interface Disclaimed {
  readonly disclaimed?: number | undefined;
  /** Before that node gives its copies up: nothing is done, and only what can refuse the order is asked. Its answer is not shown. */
  readonly isTrial?: boolean | undefined;
}

export interface RestoreOrder extends VolumeOfLost, Disclaimed {
  /** Also an earlier copy, the later of which is lost, or than the one that went to the lost node. */
  readonly evenSo?: boolean | undefined;
}

export interface FinishOrder extends VolumeOfLost, Disclaimed {
  /** Also a copy since which the volume could be used, and changed. */
  readonly evenSo?: boolean | undefined;
}

export interface CancelOrder extends VolumeOfLostNode, Disclaimed {
  /** Only a move that comes from the lost node is ended (`LostOrder`). */
  readonly isComing?: boolean | undefined;
  /** Also a copy that may be the last one is removed, and an earlier one becomes the volume. */
  readonly evenSo?: boolean | undefined;
}

export interface AdminServiceOptions {
  readonly nodeId: string;
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  /** Volumes of this node that are in no pool of it. */
  readonly volumes?: VolumeSource | undefined;
  /** undefined: its volumes do not move. */
  readonly mover?: Mover | undefined;
}

/** An operator would rather wait than not know. */
const holdersTimeoutMs = 10_000;

/** The operator's side of the driver. Operations that change a volume take turns with the RPCs for it. */
export function adminService({ mover, nodeId, pools, objects, volumes }: AdminServiceOptions): AdminHandlers {
  return {
    async listPools() {
      return { pools: pools.statuses() };
    },

    async listTrash() {
      const lists = await Promise.all(pools.all().map(async (pool) => ({ pool, trash: await pool.trash() })));
      const volumes = lists.flatMap(({ pool, trash }) => trash.map((volume) => show(pool, volume)));
      return {
        volumes: volumes.sort((a, b) => (a.deletedAt > b.deletedAt ? -1 : 1)),
        problems: closedPools(pools).map(({ message }) => message),
      };
    },

    async listConditions() {
      const listed = await Promise.all(
        pools.known().map(async (pool) => {
          const records = await withTimeout(silentAfterMs, pool.list(undefined, undefined));
          return records === 'late' ? [] : records.map(({ id }) => ({ pool, id }));
        }),
      );
      const volumes = listed.flat();
      const conditions = await conditionsIn(volumes);
      return {
        volumes: volumes.flatMap(({ id }, at) => {
          const condition = conditions[at];
          return condition?.abnormal === true ? [{ id, message: condition.message }] : [];
        }),
      };
    },

    async restore({ disclaimed, evenSo = false, id, isTrial, laterThan, lostNode, lostPool, words }, call) {
      const deadline = deadlineOf(call.deadline);
      const word = { lostNode, disclaimed, laterThan, words, deadline };
      const order = { id, lostNode, lostPool, evenSo };
      // An order that comes while a trial goes on is not carried out by that.
      const turn = isTrial === true ? `trial ${id}` : id;
      const hasWord = lostNode !== undefined || lostPool !== undefined || evenSo;
      const latest = await latestTrashed(pools, id);
      const out = hasWord ? await outOfTrash({ mover, pools }, order, latest) : undefined;
      if (out !== undefined) {
        await refuseWaiting({ mover, pools }, id, lostPool);
        call.note({ pool: out.pool.name });
        if (lostNode === undefined) await refuseOlderCopy({ mover, pools }, out, order);
        await objects.run(volumeNameKey(out.name), 'restore', turn, () =>
          objects.claim([{ object: id }], 'end of a restore', async () => {
            requireInTime(id, deadline);
            await mover?.copies.requireNotStaged(id);
            if (isTrial !== true) await takeBack(out.pool, id, word);
          }),
        );
        return { id, name: out.name, pool: out.pool.name, problem: asOf(out) };
      }
      await refuseExisting({ mover, pools }, order, latest);
      const { deletedAt, name, pool } = requireTrashed(pools, id, latest);
      call.note({ pool: pool.name });
      const mark = await pool.moves?.trashedMark(id);
      const isLeft = (await pool.moves?.hasLeft(id)) === true;
      const left = isLeft ? { pool, mark, deletedAt } : undefined;
      await refuseOlderCopy({ mover, pools }, left ?? { pool }, order);
      if (lostNode !== undefined && !evenSo && (await isEarlierInTrash(pool, id))) {
        throw earlierCopy({ id, lostNode }, `the trash of pool ${pool.name}`);
      }
      // Locks the name first, as CreateVolume does, which may be about to make a volume with that name.
      await objects.run(volumeNameKey(name), 'restore', turn, () =>
        objects.claim([{ object: id }], 'restore', async () => {
          await refuseTaken({ mover, pools }, { ...order, name }, latest);
          if (lostNode !== undefined) requireInTime(id, deadline);
          // A pod of this node may use the other one, in a pool that is no pool of it any more.
          if (left !== undefined) await mover?.copies.requireNotStaged(id);
          if (isTrial === true) return pool.requireRestorable(id);
          await mover?.wanted(id);
          await pool.restore(id);
          await takeBack(pool, id, word);
        }),
      );
      if (isTrial === true) return { id, name, pool: pool.name };
      const { abnormal, message } = await conditionIn(pool, id);
      const problems = [...(left === undefined ? [] : [asOf(left)]), ...(abnormal ? [message] : [])];
      return { id, name, pool: pool.name, ...(problems.length > 0 && { problem: problems.join(' ') }) };
    },

    async purge({ id }, call) {
      if (id !== undefined) {
        const { pool } = requireTrashed(pools, id, await latestTrashed(pools, id));
        call.note({ pool: pool.name });
        return { ids: await purgeOne(pool, objects, id) };
      }
      const lists = await finishAll(pools.all().map((pool) => purgeAll(pool, objects)));
      const ids = lists.flat();
      call.note({ volumes: ids.length });
      return { ids };
    },

    adopt: (request, call) => adopt({ mover, nodeId, pools, objects }, request, call),
    release: (request, call) => release({ mover, nodeId, pools, objects }, request, call),
    planMove: (request, call) => planMove(mover, request, call),
    startMove: (request, call) => startMove(mover, request, call),
    cancelMove: (request, call) => cancelMove(mover, request, call),
    finishMove: (request, call) => finishMove(mover, request, call),
    listMoves: () => listMoves(mover),

    async holders({ id }, call) {
      const { attached, pool } = await attachedOn({ pools, volumes }, id);
      call.note({ pool });
      const { holders, isComplete } =
        attached.length === 0
          ? { holders: [], isComplete: true }
          : await findHolders(soughtOf(attached), 'all', holdersTimeoutMs);
      const devices = attached.flatMap((each) => (each.kind === 'device' ? each.devicePath : []));
      const mountedFrom = attached.flatMap(placeOf);
      return { id, pool, devices, mountedFrom, isComplete, holders: [...holders] };
    },
  };
}

/** Attachments of a volume on this node, and its pool or server. @throws NotFound */
async function attachedOn(
  { pools, volumes }: Pick<AdminServiceOptions, 'pools' | 'volumes'>,
  handle: VolumeHandle,
): Promise<{ readonly pool: string; readonly attached: readonly Attached[] }> {
  const found = await volumes?.findIfPossible(handle);
  if (found !== undefined) return { pool: found.access.poolName, attached: await found.access.attached() };
  const id = parseVolumeId(handle);
  if (id === undefined) throw new NotFound(`volume ${handle} is not in use on this node.`);
  const { pool } = (await pools.findEphemeral(id)) ?? (await pools.require(id));
  const here = await pool.attached(id);
  return { pool: pool.name, attached: here.length > 0 ? here : await pool.inUse(id) };
}

/** The directory with the files of a volume that has no device. */
function placeOf(attached: Attached): string[] {
  switch (attached.kind) {
    case 'device':
      return [];
    case 'directory':
      return [attached.path];
    case 'mountable':
      return [attached.source];
  }
}

async function purgeAll(pool: Pool, objects: ObjectQueue): Promise<VolumeId[]> {
  const ids = new Set((await pool.trash()).map(({ record }) => record.id));
  return (await finishAll([...ids].map((id) => purgeOne(pool, objects, id)))).flat();
}

/** The trash can hold several volumes with the same id. */
async function purgeOne(pool: Pool, objects: ObjectQueue, id: VolumeId): Promise<VolumeId[]> {
  return [...new Set(await objects.run(id, 'purge', '', () => pool.purge(id)))];
}

/** A copy that its volume has left by a move: no pool has the volume any more, so this is the volume again. */
async function takeBack(
  { moves }: Pool,
  id: VolumeId,
  {
    deadline,
    lostNode,
    ...word
  }: Omit<RestoreOrder, 'evenSo' | 'id' | 'isTrial' | 'lostPool'> & { readonly deadline: Deadline | undefined },
): Promise<void> {
  const why = (await moves?.stateOf(id))?.why;
  if (why !== 'given' && why !== 'old') return;
  // It may have come out of the trash slowly.
  if (lostNode !== undefined && isLate(deadline)) {
    throw new Unavailable(
      `volume ${id} is out of the trash, and was not taken back in time: the same command again takes it back.`,
    );
  }
  await moves?.takeBack(id, lostNode === undefined ? undefined : { lostNode, ...word });
}

/**
 * The copy that an order before this one has taken out of the trash too late, or which was cut short then: it is not the volume yet. One that
 * moves is none.
 * @throws Unavailable while another pool may have the volume
 */
async function outOfTrash(
  { mover, pools }: Pick<AdminServiceOptions, 'mover' | 'pools'>,
  { evenSo, id, lostNode }: Pick<RestoreOrder, 'evenSo' | 'id' | 'lostNode'>,
  latest: TrashedHere | undefined,
): Promise<{ readonly pool: Pool; readonly name: string; readonly mark: CopyMark } | undefined> {
  const found = await Promise.all(pools.all().map(async (pool) => ({ pool, record: await pool.find(id) })));
  const [copy, ...others] = found.filter(({ record }) => record !== undefined);
  if (copy?.record === undefined || others.length > 0) return undefined;
  const state = await copy.pool.moves?.stateOf(id);
  const jobs = mover?.sights().filter(({ job }) => job.id === id) ?? [];
  // A move within the node that has failed is given up first.
  const isMoving = jobs.some(
    ({ job }) => job.state === 'running' || (job.state === 'failed' && lostNode === undefined),
  );
  if (state === undefined || isVolume(state) || isMoving) return undefined;
  // A disk was put back that has an earlier one.
  const { createdAt, name } = copy.record;
  const { mark } = state;
  if (isLaterTrashed(latest, { createdAt, generation: mark.generation })) return undefined;
  const closed = pools.firstClosed();
  if (closed === undefined) {
    const isBefore = lostNode !== undefined && isEarlier(state, await copy.pool.moves?.noted(id));
    if (isBefore && evenSo !== true) throw earlierCopy({ id, lostNode }, `pool ${copy.pool.name}`);
    return { pool: copy.pool, name, mark };
  }
  throw new Unavailable(`volume ${id} may be in pool ${closed}, which is not open: restore it when that is.`);
}

function earlierCopy(
  { id, lostNode }: { readonly id: VolumeId; readonly lostNode: string },
  place: string,
): FailedPrecondition {
  return new FailedPrecondition(
    `${place} has an earlier copy of volume ${id} than the one that went to node ${lostNode} last, as this node has noted: a later one may be in a pool that is not in the configuration, or on another disk. Put that pool and its disk back. If it is lost, the earlier copy becomes the volume: the same command with --even-so.`,
  );
}

/** @throws NotFound, or Unavailable if a pool that is not open may have it */
function requireTrashed(pools: Pools, id: VolumeId, latest: TrashedHere | undefined): TrashedHere {
  if (latest !== undefined) return latest;
  const [closed] = closedPools(pools);
  if (closed !== undefined) throw closed;
  throw new NotFound(`There is no volume ${id} in the trash of this node: see holdfast trash.`);
}

/**
 * Refuses a copy in the trash while all of another one waits on this node, whose first end is lost: it may be a later one, and none of the two
 * goes unasked.
 * @returns true if the volume is moving here. Its copy may be lost with its pool, as an operator says: then it is not
 * @throws FailedPrecondition
 */
async function refuseWaiting(
  { mover, pools }: Pick<AdminServiceOptions, 'mover' | 'pools'>,
  id: VolumeId,
  lostPool?: string,
): Promise<boolean> {
  const move = await mover?.wholeMove(id);
  if (move === undefined) {
    if (mover?.isMoving(id) === true) return true;
    // Its node has lost what it had noted of that move.
    const whole = await poolWithWhole(pools, id);
    if (whole !== undefined) throw unknownPart(id, whole);
    return false;
  }
  const { from, node, to } = move;
  const isAway = !pools.names().includes(to);
  if (isAway && lostPool === to) return false;
  const [lost, ended] =
    node === undefined ? [`--pool-is-lost ${from}`, ''] : [`--node-is-lost ${node}`, ` --node-is-lost ${node}`];
  throw new FailedPrecondition(
    `all of a copy of volume ${id} waits in pool ${to}, which may be a later one than that in the trash. If what it comes from is lost, it becomes the volume: holdfast move finish ${id} ${lost}. To remove it instead: holdfast move cancel ${id}${ended} --even-so.${isAway ? ` If pool ${to} is lost: holdfast trash restore ${id} --pool-is-lost ${to}.` : ''}`,
  );
}

/**
 * The copy of a volume that has moved away is older than one that another pool may have, in its trash too.
 * @param copy without a mark: its volume was deleted in that pool
 * @throws Unavailable, FailedPrecondition
 */
async function refuseOlderCopy(
  { mover, pools }: Pick<AdminServiceOptions, 'mover' | 'pools'>,
  { pool, ...copy }: Pick<LeftHere, 'deletedAt' | 'pool'> & Partial<Pick<LeftHere, 'mark'>>,
  { evenSo, id, lostNode, lostPool }: RestoreOrder,
): Promise<void> {
  const node = await pool.moves?.whereElse(id);
  if (node !== undefined && node !== lostNode) {
    throw new FailedPrecondition(
      `volume ${id} has moved since this copy of it, and may be on node ${node}: restore it there. If that node is there, and the disk of its pool is lost: kubectl holdfast trash restore, with --pool-is-lost POOL. If that node will never come back, or is this one under another name: --node-is-lost ${node}.`,
    );
  }
  if (!('mark' in copy)) return;
  const closed = pools.firstClosed();
  // A node that is lost is the second word, too.
  const words = { lostPool, evenSo: evenSo === true || node !== undefined };
  if (closed === undefined) return requireWord({ mover, pools }, { id, pool, mark: undefined, ...copy }, words);
  throw new Unavailable(
    `volume ${id} has moved out of pool ${pool.name} since this copy of it, and pool ${closed}, which is not open, may have a later one: restore it when that is open, or without that pool in the configuration.`,
  );
}

/**
 * Refuses to restore a name that another pool has: CreateVolume with that name would answer with either volume.
 * @throws AlreadyExists, or Unavailable if a pool that could not be opened may have one
 */
async function refuseTaken(
  { mover, pools }: Pick<AdminServiceOptions, 'mover' | 'pools'>,
  { name, ...order }: Pick<RestoreOrder, 'id' | 'lostNode' | 'lostPool'> & { readonly name: string },
  latest: TrashedHere | undefined,
): Promise<void> {
  const { id } = order;
  await refuseExisting({ mover, pools }, order, latest);
  for (const pool of pools.known()) {
    const other = (await pool.list(undefined, undefined)).find((record) => record.name === name && record.id !== id);
    if (other !== undefined) {
      throw new AlreadyExists(
        `volume ${other.id} in pool ${pool.name} has the name ${JSON.stringify(name)} by now: to restore ${id}, delete that one first.`,
      );
    }
  }
  const unknown = pools.names().find((poolName) => !pools.known().some((pool) => pool.name === poolName));
  if (unknown !== undefined) {
    throw new Unavailable(
      `pool ${unknown} is not open, and may have a volume with the name ${JSON.stringify(name)} by now: restore ${id} when it is, or without that pool in the configuration.`,
    );
  }
}

/**
 * Passes over copies that are earlier ones than the latest in the trash, as on a disk that was put back: they stay what they are.
 * @throws AlreadyExists, FailedPrecondition
 */
async function refuseExisting(
  { mover, pools }: Pick<AdminServiceOptions, 'mover' | 'pools'>,
  { id, lostNode, lostPool }: Pick<RestoreOrder, 'id' | 'lostNode' | 'lostPool'>,
  latest: TrashedHere | undefined,
): Promise<void> {
  const isComing = await refuseWaiting({ mover, pools }, id, lostPool);
  let later: Pool | undefined;
  for (const pool of pools.known()) {
    const record = await pool.find(id);
    if (record === undefined) continue;
    const state = pools.isOpen(pool.name) ? await pool.moves?.stateOf(id) : undefined;
    if (state === undefined || isVolume(state)) {
      throw new AlreadyExists(`pool ${pool.name}: volume ${id} exists: there is nothing to restore.`);
    }
    const isMoving = isComing || isLeaving(mover, { id, lostNode });
    const copy = { createdAt: record.createdAt, generation: state.mark.generation };
    if (!isLaterTrashed(latest, copy) || isMoving) later ??= pool;
  }
  if (later !== undefined) {
    throw new FailedPrecondition(
      `pool ${later.name} has a copy of volume ${id} that is not the volume, and that is no earlier one than a copy in the trash: see holdfast move status ${id}. Unless it moves, holdfast move cancel ${id} makes it the volume again. If it came out of the trash just now: the same command as then, with its --pool-is-lost, --node-is-lost or --even-so.`,
    );
  }
}

/** True if the volume moves to another node than the one that is lost. */
function isLeaving(mover: Mover | undefined, { id, lostNode }: Pick<RestoreOrder, 'id' | 'lostNode'>): boolean {
  const leaving = mover?.sights().filter(({ job }) => job.id === id && job.node !== undefined && job.to === '') ?? [];
  return leaving.some(({ job }) => job.state === 'running' && job.node !== lostNode);
}

/** The errors of pools that are not open. */
function closedPools(pools: Pools): HoldfastError[] {
  return pools.names().flatMap((name) => {
    try {
      pools.get(name);
      return [];
    } catch (error) {
      if (error instanceof HoldfastError) return [error];
      throw error;
    }
  });
}

function show(pool: Pool, { deletedAt, isLeft, purgeAt, record, usedBytes }: TrashedVolume): TrashedVolumeSight {
  return {
    id: record.id,
    name: record.name,
    claim: claimOf(record),
    pool: pool.name,
    sizeBytes: record.sizeBytes.toString(),
    usedBytes: usedBytes.toString(),
    deletedAt,
    purgeAt,
    ...(isLeft && { left: true }),
  };
}
