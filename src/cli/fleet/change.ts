import { z } from 'zod';
import { whyMovedOn } from '../../admin/left-copy.ts';
import { type Moving, moving, purged, type Restored, restored } from '../../admin/protocol.ts';
import { contract, decode, encode } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import { requireLost, requireOnlyAt } from '../../fleet/controller/other-copies.ts';
import { PassedOn } from '../../fleet/controller/passed-on.ts';
import { persistentVolumes } from '../../fleet/kubernetes/persistent-volumes.ts';
import { readTakenBack, type TakenBack, takenBackSince } from '../../fleet/kubernetes/taken-back.ts';
import { askFleet, requireNode } from '../../fleet/view/ask.ts';
import type { ChangeWishes } from '../../fleet/view/request.ts';
import type { ChangedFleet } from '../../fleet/view/start.ts';
import { whyNotLatest } from '../../move/finish.ts';
import type { CopySight, TrashedCopy } from '../../move/peers.ts';
import { requireSecondWord } from '../../move/second-word.ts';
import { FailedPrecondition, HoldfastError, InvalidArgument, NotFound, Unavailable } from '../../volume/errors.ts';
import { parseVolumeId } from '../../volume/id.ts';
import { hasCome, isPassedOver, isPast, type LostNode } from '../../volume/move/rule.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';
import { findVolume, isMeant, type Known } from '../look/find-volume.ts';
import { printCancelled, printFinished, printResume } from '../move.ts';
import { exitCodes, type Output } from '../output/output.ts';
import { printPurged, printRestored } from '../trash.ts';
import { forget } from './forget-node.ts';
import { moveVolume } from './move.ts';
import { itemShapes } from './shapes.ts';
import {
  leftAt,
  type MeantCopy,
  meantCopy,
  requireAlone,
  requireNoLaterTrashed,
  type SecondWord,
  takeBack,
  takeFromLost,
} from './taking-back.ts';
import { endTwoCopies } from './two-copies.ts';

const requestType = contract.lookupType('holdfast.fleet.v1.ChangeRequest');
const answerType = contract.lookupType('holdfast.fleet.v1.ChangeAnswer');

/** A change takes no longer on a healthy disk. */
const changeMs = 25_000;
/** Time that a node may take for a list. */
const searchMs = 10_000;

/**
 * Makes a change that a permitted user asks for: `kubectl holdfast trash restore`, `trash purge`,
 * `move cancel`, `move finish` and `forget-node`, and the page.
 * @throws HoldfastError
 */
export async function changeFleet(
  fleet: ChangedFleet,
  wishes: ChangeWishes,
  output: Output,
  signal: AbortSignal,
): Promise<number> {
  const { change, json } = wishes;
  if (change === 'forget') return forgetNode(fleet, wishes, output);
  if (change === 'move') return moveVolume(fleet, wishes, output, signal);
  if (change === 'cancel') {
    const cancelled = await cancelMove(fleet, wishes, signal);
    printCancelled(output, cancelled, json);
    printResume(output, wishes, cancelled);
    return exitCodes.ok;
  }
  if (change === 'finish') {
    printFinished(output, await finishMove(fleet, wishes, signal), json);
    printResume(output, wishes);
    return exitCodes.ok;
  }
  const { id, node } = await trashedVolume(fleet, wishes, signal);
  if (change === 'restore') {
    printRestored(output, await restoreTrashed(fleet, wishes, { id, node }), json);
    printResume(output, wishes);
  } else printPurged(output, await send(fleet, { node, id, rpc: 'PurgeTrashed' }, purged), json);
  return exitCodes.ok;
}

async function cancelMove(fleet: ChangedFleet, wishes: ChangeWishes, signal: AbortSignal): Promise<Moving> {
  const { evenSo, lostNode } = wishes;
  const { id, node } = await movingVolume(fleet, wishes, signal);
  // Its node passes over more by the second word, which it has not shown while a PersistentVolume is wrong.
  const counting = async <T>(wrong: string | undefined, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw wrong === undefined || !(error instanceof HoldfastError) ? error : besides(error, { id, node, wrong });
    }
  };
  const order = (lost?: LostNode, wrong?: string) =>
    counting(wrong, () =>
      send(fleet, { node, id, lost, evenSo: evenSo && wrong === undefined, rpc: 'CancelMove' }, moving),
    );
  const word = { isEvenSo: evenSo };
  if (lostNode !== undefined) {
    const given = await giveUp(fleet, { id, node, lostNode, evenSo }, signal);
    // A node that is lost hears of nothing.
    if (given !== undefined) return given;
    const copy = await meantCopy(fleet.moves, node, id);
    return takeFromLost(fleet, { volumeId: id, node, lostNode, word, ...copy }, order);
  }
  const snapshots = fleet.moves.handedOver(id, node);
  // The volume itself is at one of both ends, and stays there.
  if (snapshots !== undefined) return fleet.moves.cancelSnapshots(snapshots, { volumeId: id, isEvenSo: evenSo });
  const left = await leftCopy(fleet, { id, node }, signal);
  if (left === undefined) {
    const setAside = await endTwoCopies(fleet, { id, node }, evenSo);
    if (setAside !== undefined) return setAside;
    // A mere part that has come there goes, wherever the volume is, and no copy becomes it.
    const hasNone = evenSo && (await fleet.moves.copyAt(node, id).catch(() => undefined))?.isHere === false;
    if (!hasNone) requireOnlyAt(fleet.state, id, fleet.moves.endsOf(id, node));
    // The first node may have no pool for it any more: its own node says what the word takes then.
    await fleet.moves.beforeCancel(node, id).catch((error: unknown) => {
      if (!evenSo) throw error;
    });
    return order();
  }
  const { createdAt, elsewhere, generation, otherNode, source } = left;
  if (evenSo && source !== node && elsewhere !== node) {
    // The copy there is of another move. The one that has come to this node goes, and none becomes the volume.
    requireOnlyAt(fleet.state, id, [node, source, ...(elsewhere === undefined ? [] : [elsewhere])]);
    const ended = await giveUpComing(fleet, { id, node, lostNode: source, evenSo });
    if (ended !== undefined) return ended;
  }
  const wrong = await requireAlone(fleet, { volumeId: id, node: source, otherNode, createdAt, generation, word });
  const other = otherNode ?? wrong;
  if (other === undefined) return order();
  // A disk of the node that the PersistentVolume names may come back, too.
  const copy = { volumeId: id, node: source, lostNode: other, generation, createdAt };
  if (otherNode !== undefined && otherNode !== node) {
    // It was installed again, and knows nothing of its time before: it may have moved the volume on, as a lost one may have.
    const asked = { id, node, otherNode, generation, isEvenSo: evenSo && wrong === undefined };
    const lostPool = await counting(wrong, () => askedBefore(fleet, asked));
    const giving = { volumeId: id, generation, source, lostNode: otherNode, lostPool };
    return takeBack(fleet, copy, async (note) => order(await disclaimed(fleet, giving, note), wrong));
  }
  const cancel = async () => {
    if (otherNode !== undefined) await fleet.moves.beforeCancel(node, id);
    return order(undefined, wrong);
  };
  // All of the copy that its target could commit was still there: no disk has a later one.
  return takeBack(fleet, copy, cancel, (move) => otherNode === node && move.isUncommitted === true);
}

/**
 * Asks a node whether it would take its copy back, before the one that the copy was handed over to gives it up.
 * @returns the pool of that one which is lost, by the second word: the volume had come there
 * @throws FailedPrecondition: all that this word passes over
 */
async function askedBefore(
  fleet: ChangedFleet,
  { generation, id, isEvenSo, node, otherNode }: Asked,
): Promise<string | undefined> {
  const asked = () => check(fleet, { node, id, lost: { lostNode: otherNode }, evenSo: isEvenSo, rpc: 'CheckCancel' });
  const come = await whyCome(fleet, { id, node: otherNode, generation, source: node });
  if (come !== undefined && !isEvenSo) {
    const refusal = await asked().catch((error: unknown) => error);
    requireSecondWord(false, [come, ...(refusal instanceof HoldfastError ? [refusal.message] : [])]);
  }
  await asked();
  return come === undefined ? undefined : unnamedPool;
}

interface Asked extends Found {
  readonly otherNode: string;
  readonly generation: number;
  readonly isEvenSo: boolean;
}

/** The reason against a copy that was handed over to a node which has noted, on another disk, that the volume has come, and has no copy of it. */
async function whyCome(
  { moves }: ChangedFleet,
  { generation, id, node, source }: Found & { readonly generation: number; readonly source: string },
): Promise<string | undefined> {
  // An older driver says it itself.
  const noted = await moves.noteAt(node, id).catch(() => undefined);
  if (noted === undefined || !hasCome({ generation }, { ...noted, node })) return undefined;
  return `volume ${id} has come to node ${node}, as that has noted, into a pool that is not in the configuration there, or whose disk is another one, or as it was before: the copy on node ${source} is as it was at the switch, and has nothing that was written later. Put that pool and its disk back.`;
}

/** The refusal of a node, which takes a second word that was given for a wrong PersistentVolume. */
function besides(refusal: HoldfastError, { id, node, wrong }: Found & { readonly wrong: string }): HoldfastError {
  if (refusal.code !== 'FAILED_PRECONDITION') return refusal;
  return new FailedPrecondition(
    `${refusal.message} But the PersistentVolume names node ${wrong}, which has nothing of volume ${id}, and --even-so counts for that alone then. Make a PersistentVolume that names node ${node}, and give the same command again.`,
  );
}

/**
 * Gives up a move whose source is lost, at its target. No copy becomes the volume, so it is noted nowhere, and a source that comes back
 * has the volume as before.
 * @returns undefined if it is no such move, the volume has come by now, or the driver is older: the copy there may become the volume
 */
async function giveUp(
  fleet: ChangedFleet,
  { evenSo, id, lostNode, node }: Found & { readonly lostNode: string; readonly evenSo: boolean },
  signal: AbortSignal,
): Promise<Moving | undefined> {
  if ((await sourceOf(fleet, { id, node }, signal)) !== lostNode) return undefined;
  const copy = await fleet.moves.copyAt(node, id).catch(() => undefined);
  if (copy?.isVolume === true) return undefined;
  requireLost(fleet.state, lostNode);
  requireOnlyAt(fleet.state, id, [node, lostNode]);
  return giveUpComing(fleet, { id, node, lostNode, evenSo });
}

/** The part that has come to a node from that one goes, and nothing else changes. @returns undefined if its driver is older */
async function giveUpComing(
  fleet: ChangedFleet,
  { evenSo, id, lostNode, node }: Found & { readonly lostNode: string; readonly evenSo: boolean },
): Promise<Moving | undefined> {
  try {
    return await send(fleet, { node, id, lost: { lostNode }, evenSo, rpc: 'GiveUpMove' }, moving);
  } catch (error) {
    if (error instanceof OlderDriver) return undefined;
    throw error;
  }
}

/** The driver of that node does not know the call. */
class OlderDriver extends FailedPrecondition {}

async function finishMove(fleet: ChangedFleet, wishes: ChangeWishes, signal: AbortSignal): Promise<Moving> {
  const { evenSo, lostNode, lostPool } = wishes;
  const { id, node } = await movingVolume(fleet, wishes, signal);
  const order = (lost?: LostNode) => send(fleet, { node, id, lost, evenSo, lostPool, rpc: 'FinishMove' }, moving);
  const there = await movesAt(fleet, { id, node }, signal);
  const coming = comingIn(there).find(isOfVolume);
  const wordFor = (move: Moving | undefined): SecondWord => ({
    isEvenSo: evenSo,
    against: async () => [
      ...(await whyNotLatestAt(fleet, { id, node }, move)),
      ...(await whyTakenBack(fleet, { id, node }, move)),
    ],
  });
  if (lostNode !== undefined) {
    // The volume came before, and may have gone on: no copy of it becomes the volume by an order that means a snapshot.
    const isForSnapshots =
      coming === undefined && (hasWaiting(there, { node: lostNode }) || (await fleet.moves.copyAt(node, id)).isVolume);
    // The same order before this one may have made it the volume, and its answer was lost.
    const note = (await readTakenBack(fleet.api, fleet.place)).get(id);
    const isUnsure = note?.node === node && note.generation === undefined;
    if (!isForSnapshots || isUnsure) {
      const copy = await comingCopy(fleet, { id, node }, there);
      return takeFromLost(fleet, { volumeId: id, node, lostNode, word: wordFor(coming), ...copy }, order);
    }
    requireLost(fleet.state, lostNode);
    return order({ lostNode });
  }
  if (coming !== undefined && lostPool !== undefined) {
    return finishWithoutPool(fleet, { coming, evenSo, id, lostPool, node });
  }
  const within = movesTo(there).find(isOfVolume);
  const isForSnapshots = lostPool !== undefined && within === undefined;
  if (isForSnapshots && hasWaiting(there, { pool: lostPool })) return order();
  const { createdAt, leftGeneration: generation } = await comingCopy(fleet, { id, node }, there);
  await requireAlone(fleet, { volumeId: id, node, createdAt, generation, word: wordFor(within) });
  return order();
}

/** Not of its snapshots alone: those of an earlier order may be on their way beside it. */
function isOfVolume({ copyOf, phase, snapshots }: Moving): boolean {
  return snapshots === undefined || phase !== undefined || copyOf !== undefined;
}

/** True if a copy of a snapshot of the volume waits, by the moves of its node, of which all has come from there. */
function hasWaiting(
  moves: readonly Moving[],
  from: { readonly node?: string | undefined; readonly pool?: string | undefined },
): boolean {
  const left = moves.flatMap(({ snapshots }) => snapshots?.left ?? []);
  return left.some(
    ({ cameFrom }) =>
      cameFrom !== undefined && cameFrom.node === from.node && (from.node !== undefined || cameFrom.pool === from.pool),
  );
}

/**
 * Makes a copy the volume whose first node is there, and has lost the disk of the pool that the volume leaves. That node gives up each copy of
 * that disk first, as in `restoreWithoutPool`.
 */
async function finishWithoutPool(
  fleet: ChangedFleet,
  { coming, evenSo, id, lostPool, node }: ComingWithoutPool,
): Promise<Moving> {
  const { moves } = fleet;
  const { copyOf, from, fromNode: source = '' } = coming;
  if (from !== lostPool) {
    throw new FailedPrecondition(
      `volume ${id} is moving to node ${node} from pool ${from} of node ${source}, and not from pool ${lostPool}.`,
    );
  }
  if (copyOf === undefined) {
    throw new FailedPrecondition(
      `volume ${id} has not come to node ${node} as a whole, or its driver is older and does not say it: only a whole copy becomes the volume.`,
    );
  }
  const { createdAt, generation } = copyOf;
  if (await hasUnusable(fleet, { id, node: source })) {
    throw new FailedPrecondition(
      `${whyThere(id, source)} To have that one: kubectl holdfast move cancel ${id} --node ${node} --even-so, which removes the copy that waits there, and then kubectl holdfast move cancel ${id} --node ${source} --even-so.`,
    );
  }
  if ((await moves.copyAt(node, id)).isVolume) {
    throw new FailedPrecondition(
      `volume ${id} is on node ${node} by now: its move has arrived, or it is in another pool than the copy of that. kubectl holdfast move cancel ${id} --node ${node} --even-so ends the move, and removes that copy.`,
    );
  }
  // Asked before the first node gives anything up: its disk may be there after all.
  const against = async () => [
    ...(await whyNotLatestAt(fleet, { id, node }, coming)),
    ...(await whyPassedOver(fleet, { id, node, generation, source })),
    ...(await whyTakenBack(fleet, { id, node }, coming)),
  ];
  const word = { isEvenSo: evenSo, against };
  await requireAlone(fleet, { volumeId: id, node, otherNode: source, createdAt, generation, word });
  const copy = { volumeId: id, node, lostNode: source, leftGeneration: generation, createdAt };
  const giving = { volumeId: id, generation, source: node, lostNode: source, lostPool };
  await check(fleet, { node, id, lost: { lostNode: source }, evenSo, rpc: 'CheckFinish' });
  const finished = await takeBack(fleet, copy, async (note) => {
    const lost = await disclaimed(fleet, giving, note);
    return send(fleet, { node, id, lost, evenSo, rpc: 'FinishMove' }, moving);
  });
  await endAtSource(fleet, { id, node, source });
  return finished;
}

interface ComingWithoutPool extends Found {
  readonly coming: Moving;
  readonly lostPool: string;
  readonly evenSo: boolean;
}

/** True if a pool of a node has a copy that is not the volume. One that is away says nothing, and gives nothing up. */
async function hasUnusable({ moves }: ChangedFleet, { id, node }: Found): Promise<boolean> {
  const seen = await moves.copyAt(node, id).catch(() => undefined);
  return seen?.isHere === true && !seen.isVolume;
}

/** The reason against an order by which a node gives its copies up, although it has one in a pool that is not the volume. */
function whyThere(id: string, node: string): string {
  return `a pool of node ${node} has a copy of volume ${id}: one that was handed over, an earlier one, as its disk was put back, or one that was given up by an order like this, which was cut short. That one may be the latest one. To pass over it, take its pool out of the configuration there, restart that driver, and give this command again.`;
}

/**
 * Asks a node whether it would carry an order out, before another one gives its copies up for it: that is durable, and each of those counts as an
 * earlier copy from then on. @throws HoldfastError: why not; nothing is changed
 */
async function check(fleet: ChangedFleet, { node, ...asked }: Sent & { readonly rpc: Check }): Promise<void> {
  try {
    await send(fleet, { node, ...asked }, checked);
  } catch (error) {
    if (!(error instanceof OlderDriver)) throw error;
    throw new OlderDriver(
      `The driver of node ${node} is older, and cannot say whether it would do this before node ${asked.lost?.lostNode} gives its copies up: nothing was changed. Try again with that driver of this version.`,
    );
  }
}

const checked = z.unknown();

/** A pool whose name its node alone knows. */
const unnamedPool = 'unnamed';

interface Giving extends Pick<LostNode, 'lostNode'> {
  readonly volumeId: string;
  readonly generation: number;
  /** The node of the copy that becomes the volume. */
  readonly source: string;
  readonly lostPool: string | undefined;
}

/** Has a node give its copies up, durably. @returns that node, for the order by which another copy becomes the volume @throws HoldfastError */
async function disclaimed(
  { moves }: ChangedFleet,
  { lostNode, ...copy }: Giving,
  { earlier, words }: TakenBack,
): Promise<LostNode> {
  return { lostNode, disclaimed: await moves.disclaim(lostNode, copy), laterThan: earlier?.generation, words };
}

/** The reasons why a copy on its way to a node may not be the latest one, as that node knows. An older driver says them itself. */
async function whyNotLatestAt(
  { moves }: ChangedFleet,
  { id, node }: Found,
  move: Moving | undefined,
): Promise<string[]> {
  if (move?.copyOf === undefined) return [];
  const { arrived, asOf: at, copyOf, from, fromNode, to, usableSince: fenceEndedAt } = move;
  // Within a node the hand-over itself is noted.
  const noted = fromNode === undefined ? { generation: 0 } : await moves.noteAt(node, id);
  const whole = { at, fenceEndedAt, generation: copyOf.generation };
  return whyNotLatest({ arrived, id, from, node: fromNode, to }, whole, { ...noted, node });
}

/** The reason against a copy whose source has had the volume again since, as the controller knows: the notes of both nodes may be lost. */
async function whyTakenBack({ api, place }: ChangedFleet, { id, node }: Found, move: Moving | undefined) {
  if (move?.copyOf === undefined || move.fromNode === undefined) return [];
  const since = takenBackSince((await readTakenBack(api, place)).get(id), move.fromNode, move.copyOf);
  if (since === undefined) return [];
  return [
    `volume ${id} was taken back by node ${since.node} at ${since.at}, as Secret ${place.name} says: the copy on node ${node} is as it was before, and has nothing that was written there since.`,
  ];
}

/** The reason against a copy whose source has noted a later one since, which is lost with its disk. */
async function whyPassedOver(
  { moves }: ChangedFleet,
  { generation, id, node, source }: Found & { readonly generation: number; readonly source: string },
): Promise<string[]> {
  const noted = { ...(await moves.noteAt(source, id)), node: source };
  if (!isPassedOver(generation, noted, node)) return [];
  const then = noted.at === undefined ? 'has had a later copy since' : `has handed it over to node ${noted.at} since`;
  return [
    `volume ${id} has come to node ${node} from node ${source}, which ${then}, as it has noted on another disk: that later copy may be on a disk which is away.`,
  ];
}

/** The first node hears that its move has ended. It has nothing of the volume that could hear of it later. */
async function endAtSource({ moves }: ChangedFleet, { id, node, source }: Found & { readonly source: string }) {
  const settled = moves
    .copyAt(node, id)
    .then(({ generation }) => moves.settle(source, { volumeId: id, node, generation }));
  // It shows a move that goes on then, and is as safe without.
  await settled.catch(() => undefined);
}

async function restoreTrashed(
  fleet: ChangedFleet,
  { evenSo, lostNode, lostPool }: ChangeWishes,
  { id, node }: Found,
): Promise<Restored> {
  const order = (lost?: LostNode) => send(fleet, { node, id, lost, lostPool, evenSo, rpc: 'RestoreTrashed' }, restored);
  const word = { isEvenSo: evenSo, against: () => whyEarlier(fleet, { id, node }) };
  if (lostNode !== undefined) {
    const copy = await meantCopy(fleet.moves, node, id);
    return takeFromLost(fleet, { volumeId: id, node, lostNode, word, ...copy }, order);
  }
  // Without a word its node restores a volume only if it was deleted there, and no copy that it has left.
  if (lostPool === undefined && !evenSo && !(await wasTakenElsewhere(fleet, { id, node }))) {
    requireOnlyAt(fleet.state, id, [node]);
    // Two nodes had a copy, and it was deleted on both: all the disks of one of them had been put back.
    const { trashed } = await fleet.moves.copyAt(node, id).catch(() => ({ trashed: undefined }));
    if (trashed !== undefined) {
      const { createdAt, generation } = trashed;
      await requireNoLaterTrashed(fleet, { volumeId: id, node, createdAt, generation }, false);
    }
    return order();
  }
  const left = await leftAt(fleet.moves, node, id);
  if (lostPool !== undefined && left?.elsewhere !== undefined) {
    return restoreWithoutPool(fleet, { ...left, elsewhere: left.elsewhere, word, id, lostPool, node });
  }
  const { createdAt, generation } = left ?? {};
  const wrong = await requireAlone(fleet, { volumeId: id, node, createdAt, generation, word });
  if (wrong === undefined) return order();
  // A disk of that node may come back, and its notes may be lost.
  const copy = { volumeId: id, node, lostNode: wrong, leftGeneration: generation, createdAt };
  return takeBack(fleet, copy, ({ earlier, words }) =>
    order({ lostNode: wrong, laterThan: earlier?.generation, words }),
  );
}

/** The reason against the copy on a node that is an earlier one than that which went to another node, or pool, last, as it has noted. */
async function whyEarlier({ moves }: ChangedFleet, { id, node }: Found): Promise<string[]> {
  const copy = await leftAt(moves, node, id);
  if (copy === undefined) return [];
  if (copy.elsewhere === undefined) {
    // An older driver does not say it, nor refuse it.
    return whyMovedOn(id, copy, await moves.noteAt(node, id).catch(() => ({ generation: 0 })));
  }
  const { at, generation } = await moves.noteAt(node, id);
  if (at === undefined || !isPast(copy.generation + 1, generation)) return [];
  return [
    `node ${node} has an earlier copy of volume ${id} than the one that went to node ${at} last, as it has noted: a later one may be in a pool of node ${node} that is not in the configuration, or on another disk. Put that pool and its disk back.`,
  ];
}

/**
 * Restores the copy that a volume has left for a pool of another node, whose disk is lost while that node is there. It gives up each copy of that
 * disk first, so that none is used there if the disk comes back; the note does the same at each other node.
 */
async function restoreWithoutPool(
  fleet: ChangedFleet,
  { createdAt, elsewhere, generation, id, lostPool, node, word }: GoneElsewhere,
): Promise<Restored> {
  if (await hasUnusable(fleet, { id, node: elsewhere })) {
    throw new FailedPrecondition(
      `${whyThere(id, elsewhere)} To have that one: kubectl holdfast move cancel ${id} --node ${elsewhere} --even-so.`,
    );
  }
  await requireAlone(fleet, { volumeId: id, node, otherNode: elsewhere, createdAt, generation, word });
  const copy = { volumeId: id, node, lostNode: elsewhere, leftGeneration: generation, createdAt };
  const giving = { volumeId: id, generation, source: node, lostNode: elsewhere, lostPool };
  await check(fleet, { node, id, lost: { lostNode: elsewhere }, evenSo: word.isEvenSo, rpc: 'CheckRestore' });
  return takeBack(fleet, copy, async (note) => {
    const lost = await disclaimed(fleet, giving, note);
    return send(fleet, { node, id, lost, evenSo: word.isEvenSo, rpc: 'RestoreTrashed' }, restored);
  });
}

interface GoneElsewhere extends Found, TrashedCopy {
  readonly elsewhere: string;
  readonly lostPool: string;
  readonly word: SecondWord;
}

/** The copy that the end of a move makes the volume again. */
interface LeftCopy extends Pick<CopySight, 'createdAt' | 'generation'> {
  readonly source: string;
  /** The node that it was handed over to; undefined: another pool of its node, as far as that is known. */
  readonly otherNode: string | undefined;
  /** The other node that it went to, as its node has noted. */
  readonly elsewhere?: string | undefined;
}

/** @returns undefined if a cancel makes no copy the volume: it was not handed over, or its node refuses that */
async function leftCopy(fleet: ChangedFleet, { id, node }: Found, signal: AbortSignal): Promise<LeftCopy | undefined> {
  const { moves } = fleet;
  const source = await sourceOf(fleet, { id, node }, signal);
  if (source !== undefined) {
    const copy = await moves.copyAt(source, id);
    const { createdAt, elsewhere = copy.isHere === true ? undefined : node, generation } = copy;
    return isLeft(copy) ? { source, otherNode: node, createdAt, elsewhere, generation } : undefined;
  }
  const copy = await moves.copyAt(node, id).catch(() => undefined);
  if (copy !== undefined && !isLeft(copy)) return undefined;
  const { createdAt, elsewhere, generation = 0 } = copy ?? {};
  if (elsewhere !== undefined && !(await isReinstalled(fleet, { id, node: elsewhere, from: node }, signal)))
    return undefined;
  return { source: node, otherNode: elsewhere, createdAt, elsewhere, generation };
}

/** True if there is a copy that is not the volume, or may be one, as an older driver does not say it: all nodes are asked then. */
function isLeft({ isHere, isVolume }: CopySight): boolean {
  return !isVolume && isHere !== false;
}

/** True if a node that a volume was handed over to is there, and says now that it knows nothing of that: it can give up what it could commit. */
async function isReinstalled(
  fleet: ChangedFleet,
  { from, ...found }: Found & { readonly from: string },
  signal: AbortSignal,
): Promise<boolean> {
  const moves = await movesAt(fleet, found, signal).catch(() => undefined);
  // It may have handed the volume over to that node before.
  return moves?.every(({ state, toNode }) => state === 'cancelled' || toNode === from) === true;
}

/** The other node from which a volume is moving to this one, or has failed to, as this one says now. @throws Unavailable */
async function sourceOf(fleet: ChangedFleet, found: Found, signal: AbortSignal): Promise<string | undefined> {
  return comingIn(await movesAt(fleet, found, signal))[0]?.fromNode;
}

/**
 * The copy of a volume that has come to this node, or to a pool of it, as a whole; or the one that is the volume by now. A driver that is
 * older does not say which.
 * @param there the moves of the volume at this node @throws Unavailable
 */
async function comingCopy(fleet: ChangedFleet, { id, node }: Found, there: readonly Moving[]): Promise<MeantCopy> {
  const [copy] = movesTo(there).flatMap(({ copyOf }) => copyOf ?? []);
  if (copy === undefined) return meantCopy(fleet.moves, node, id);
  return { createdAt: copy.createdAt, leftGeneration: copy.generation };
}

/** The moves from other nodes that run, or have failed, among those of a node. */
function comingIn(moves: readonly Moving[]): Moving[] {
  return movesTo(moves).filter(({ fromNode }) => fromNode !== undefined);
}

/** The same, with those between its pools. */
function movesTo(moves: readonly Moving[]): Moving[] {
  return moves.filter(({ state, toNode }) => toNode === undefined && state !== 'done' && state !== 'cancelled');
}

/** The moves of a volume that this node has, running and ended, as it says now. @throws Unavailable */
async function movesAt(fleet: ChangedFleet, { id, node }: Found, signal: AbortSignal): Promise<Moving[]> {
  requireThere(fleet.state, node);
  const question = { list: 'moves', volume: undefined, node, waitMs: searchMs, signal };
  const { items, missing, problems } = await askFleet(fleet, question, itemShapes.moves);
  const [problem] = [...missing, ...problems];
  if (problem !== undefined) throw new Unavailable(`node ${node}: ${problem.message}`);
  return items.map(({ item }) => item).filter((move) => move.id === id);
}

/** True if another node may have taken the volume back since its copy on this one was the volume. @throws Unavailable */
async function wasTakenElsewhere({ api, place }: ChangedFleet, { id, node }: Found): Promise<boolean> {
  const note = (await readTakenBack(api, place)).get(id);
  return note !== undefined && (note.generation === undefined || note.node !== node);
}

function forgetNode({ api, driverName, place, state }: ChangedFleet, wishes: ChangeWishes, output: Output) {
  const { dryRun, evenSo, json, node = '', undo } = wishes;
  const sightOf = async (name: string) => state.node(name);
  const holdersOf = (volumeId: string) => state.owners(volumeId).map((owner) => owner.node);
  return forget({ api, driverName, place, sightOf, holdersOf }, output, { node, dryRun, evenSo, json, undo });
}

/** The node on which a volume moves, and its id. @throws NotFound, FailedPrecondition, Unavailable */
async function movingVolume(fleet: ChangedFleet, wishes: ChangeWishes, signal: AbortSignal): Promise<Found> {
  const { node, volume = '' } = wishes;
  if (node !== undefined) requireNode(fleet.state, node);
  const id = parseVolumeId(volume) ?? (await volumeMeant(fleet, wishes, signal));
  if (node !== undefined) return { node, id };
  const question = { list: 'moves', volume: undefined, node, waitMs: searchMs, signal };
  const { items, missing, problems } = await askFleet(fleet, question, itemShapes.moves);
  const moves = items.filter(({ item }) => item.id === id);
  // Its snapshots may follow it still.
  const running = moves.filter(({ item }) => item.state === 'running' || item.snapshots?.state === 'running');
  // Both nodes of a move have one: the node that the volume goes to can end it at any time, also if it has failed there.
  const [first] = running;
  const failed = moves
    .filter(({ item }) => item.state === 'failed' && item.toNode === undefined)
    .toSorted((a, b) => (a.item.startedAt > b.item.startedAt ? -1 : 1))
    .find(
      ({ item, node: target }) => first === undefined || (item.fromNode === first.node && target === first.item.toNode),
    );
  const told = running.find(({ item }) => item.toNode === undefined) ?? failed ?? first;
  if (told !== undefined) return { node: told.node, id };
  const unsure = [...missing, ...problems].map(({ message, node: other }) => `node ${other}: ${message}`);
  if (unsure.length === 0)
    throw new NotFound(`volume ${id} does not move; kubectl holdfast move status shows the moves`);
  throw new Unavailable(
    `volume ${id} does not move on the nodes that answered; ${unsure.slice(0, 3).join('; ')}. If you know its node: --node`,
  );
}

/**
 * The id of the volume that a name or `namespace/claim` means. The node that a volume moves to has no record of it, and the one that it
 * leaves may be lost: its PersistentVolume names it then, if no node lists such a name.
 */
async function volumeMeant(fleet: ChangedFleet, { node, volume = '' }: ChangeWishes, signal: AbortSignal) {
  const question = { list: 'volumes', volume, node: undefined, waitMs: searchMs, signal };
  const { items } = await askFleet(fleet, question, itemShapes.volumes);
  const meant = items.filter(({ item }) => isMeant(item, volume));
  const there = meant.filter((told) => told.node === node);
  const known = new Map<string, Known>();
  for (const { item, node: its } of there.length > 0 ? there : meant) {
    known.set(item.id, { ...item, pool: `${item.pool} of node ${its}` });
  }
  if (known.size === 0) for (const recorded of await recordedAs(fleet, volume)) known.set(recorded.id, recorded);
  return findVolume([...known.values()], volume, 'on the nodes that answered, or in a PersistentVolume').id;
}

/** The volumes whose PersistentVolumes have that name, or that claim. Several can name one volume, as while it moves. */
async function recordedAs({ api, driverName }: ChangedFleet, volume: string): Promise<Known[]> {
  const found: Known[] = [];
  for await (const { claim, handle, name, node } of persistentVolumes(api, driverName)) {
    const recorded = { id: handle, name, claim, pool: node === undefined ? 'not known' : `of node ${node}` };
    if (parseVolumeId(handle) !== undefined && isMeant(recorded, volume)) found.push(recorded);
  }
  return found;
}

interface Found {
  readonly id: string;
  readonly node: string;
}

/** The one volume in the trash of a node that is meant. @throws NotFound, FailedPrecondition, Unavailable */
async function trashedVolume(fleet: ChangedFleet, wishes: ChangeWishes, signal: AbortSignal): Promise<Found> {
  const { node, volume = '' } = wishes;
  if (node !== undefined) requireNode(fleet.state, node);
  if (node !== undefined && parseVolumeId(volume) !== undefined) return { node, id: volume };
  const question = { list: 'trash', volume, node, waitMs: searchMs, signal };
  const { items, missing, problems } = await askFleet(fleet, question, itemShapes.trash);
  const meant = items.filter(({ item }) => isMeant(item, volume));
  // One id can have been deleted several times: all of them are meant.
  const each = new Map(meant.map((told) => [`${told.node} ${told.item.id}`, told]));
  const known = [...each.values()].map(({ item: { claim, id, name, pool }, node: itsNode }) => ({
    ...{ id, name, claim, node: itsNode },
    pool: `${pool} of node ${itsNode}`,
  }));
  const unsure = [...missing, ...problems].map(({ message, node: other }) => `node ${other}: ${message}`);
  if (known.length === 0 && unsure.length > 0) {
    throw new Unavailable(
      `there is no volume '${volume}' in the trash of the nodes that answered; ${unsure.slice(0, 3).join('; ')}`,
    );
  }
  if (unsure.length > 0 && parseVolumeId(volume) === undefined) {
    throw new Unavailable(
      `not all nodes have answered, and one of them may have another '${volume}' in its trash: give the id, or --node. ${unsure.slice(0, 3).join('; ')}`,
    );
  }
  return findVolume(known, volume, 'in the trash of any node');
}

interface Sent {
  readonly node: string;
  readonly id: string;
  readonly lost?: LostNode | undefined;
  readonly lostPool?: string | undefined;
  readonly evenSo?: boolean;
  readonly rpc: 'RestoreTrashed' | 'PurgeTrashed' | 'CancelMove' | 'FinishMove' | 'GiveUpMove' | Check;
}

type Check = 'CheckRestore' | 'CheckCancel' | 'CheckFinish';

/** @throws the node's error, Unavailable, TooLate */
async function send<T>(
  { sessions, state }: ChangedFleet,
  { evenSo = false, id, lost, lostPool = '', node, rpc }: Sent,
  schema: z.ZodType<T>,
): Promise<T> {
  requireThere(state, node);
  const request = encode(requestType, {
    ...{ volume_id: id, lost_node: lost?.lostNode ?? '', lost_pool: lostPool },
    ...{ later_than: BigInt(lost?.laterThan ?? 0), words: lost?.words ?? 0 },
    disclaimed: BigInt(lost?.disclaimed ?? 0),
    even_so: evenSo,
  });
  const deadline = new Date(Date.now() + changeMs);
  try {
    const bytes = await sessions
      .get(node)
      .calls.call({ method: `/holdfast.fleet.v1.Change/${rpc}`, request, deadline });
    const parsed = parseJsonInput(schema, decode<wire.ChangeAnswer>(answerType, bytes).result);
    if ('data' in parsed) return parsed.data;
    throw new InvalidArgument(`Node ${node} has answered in words that this controller does not know: look there.`);
  } catch (error) {
    if (!(error instanceof PassedOn) || error.code !== 'UNIMPLEMENTED') throw error;
    throw new OlderDriver(
      `The driver of node ${node} is older and does not take this from the controller: type the command on the node.`,
    );
  }
}

/** @throws Unavailable */
function requireThere(state: ChangedFleet['state'], node: string): void {
  if (state.node(node)?.isLinked === true) return;
  throw new Unavailable(`Node ${node} is away: nothing changes there until it is back.`);
}
