import { requireNoOther, type WishedCopy, whyMayBeOn } from '../../fleet/controller/other-copies.ts';
import { persistentVolumes } from '../../fleet/kubernetes/persistent-volumes.ts';
import {
  dropTakenBack,
  noteTakingBack,
  readTakenBack,
  settleTakenBack,
  type TakenBack,
  type TakingBack,
} from '../../fleet/kubernetes/taken-back.ts';
import type { ChangedFleet } from '../../fleet/view/start.ts';
import type { CopySight, TrashedCopy } from '../../move/peers.ts';
import { requireSecondWord } from '../../move/second-word.ts';
import { isLaterTrashed } from '../../move/trashed-copy.ts';
import { FailedPrecondition, HoldfastError } from '../../volume/errors.ts';
import { fewAtOnce } from '../../volume/flow/few-at-once.ts';
import { isBehind, type LostNode } from '../../volume/move/rule.ts';

/** The copy that a word makes the volume. */
export interface BecomingCopy extends WishedCopy {
  /** undefined: a driver that is older does not say it, and any other copy may be a later one. */
  readonly generation: number | undefined;
  /** undefined: a driver that is older does not say it. */
  readonly createdAt: string | undefined;
  readonly word: SecondWord;
}

/** The operator's second word: the copy becomes the volume although something is against it, which was shown. */
export interface SecondWord {
  readonly isEvenSo: boolean;
  /** Finds the reasons against the copy besides a PersistentVolume that names a node which has nothing of the volume. */
  readonly against?: () => Promise<readonly string[]>;
}

/**
 * Checks that no other node may have the volume that a copy becomes, nor a later copy in its trash. Each word by which one becomes it asks this.
 * @returns a node that its PersistentVolume names, wrongly, as the second word says: that node may have a disk which is away
 * @throws FailedPrecondition, Unavailable
 */
export async function requireAlone(fleet: ChangedFleet, copy: BecomingCopy): Promise<string | undefined> {
  const { moves, state } = fleet;
  const { volumeId, word } = copy;
  const recorded = await recordedOn(fleet, volumeId);
  const others = recorded.filter((node) => node !== copy.node && node !== copy.otherNode);
  const before = others.length === 0 ? [] : await thoseBefore(fleet, copy, others);
  const without = await thoseWithout(fleet, volumeId, others);
  requireNoOther(state, copy, { moves: moves.list(volumeId), recordedOn: recorded, before, without });
  await requireNoLaterTrashed(fleet, copy, true);
  const wrong = without.find((node) => !before.includes(node));
  if (!word.isEvenSo) {
    const misnamed = wrong === undefined ? [] : [whyMayBeOn(state, copy, wrong)];
    requireSecondWord(false, [...misnamed, ...((await word.against?.()) ?? [])]);
  }
  return wrong;
}

/** The nodes that the PersistentVolumes of a volume name, by a list of this moment. @throws Unavailable */
export async function recordedOn({ api, driverName }: ChangedFleet, volumeId: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { handle, node } of persistentVolumes(api, driverName)) {
    if (handle === volumeId && node !== undefined) found.push(node);
  }
  return found;
}

/**
 * The copy that a volume has left on a node, in a pool or in the trash. One that came out of the trash too late is not the volume yet.
 * @returns undefined if there is none, or the driver is older, and does not say it
 * @throws HoldfastError
 */
export async function leftAt(
  moves: ChangedFleet['moves'],
  node: string,
  volumeId: string,
): Promise<TrashedCopy | undefined> {
  const seen = await moves.copyAt(node, volumeId);
  return seen.isVolume ? undefined : meantOf(seen);
}

/** The copy of a node that a word means: the later one, if a disk with an earlier one was put back, and the volume, if it is there. */
function meantOf(seen: CopySight): TrashedCopy | undefined {
  // Beside a copy in a pool, its node names one in the trash only if that is later.
  return seen.trashed ?? (seen.isHere === true ? seen : undefined);
}

/** The copy that a word makes later than all of which there is a note, as its node says it; undefined: a driver that is older does not. */
export type MeantCopy = Required<Pick<TakingBack, 'createdAt' | 'leftGeneration'>>;

/** One that becomes later than itself alone. */
type ExactCopy = Required<Pick<TakingBack, 'createdAt' | 'generation'>>;

type Ends = Pick<TakingBack, 'lostNode' | 'node' | 'volumeId'>;

/** The copy of a node, which may be the volume by now: the same order came before, and its answer was lost. */
export async function meantCopy(moves: ChangedFleet['moves'], node: string, volumeId: string): Promise<MeantCopy> {
  const { createdAt, generation } = meantOf(await moves.copyAt(node, volumeId)) ?? {};
  return { createdAt, leftGeneration: generation };
}

/**
 * Checks that no node has a later copy in its trash: the volume went there, came back, and the disk that it came to is lost. On the node of the
 * copy, a disk was put back with an earlier one: it refuses that itself, but after others have given theirs up.
 * @param isWord not a plain restore, which a node that does not answer must not prevent
 * @throws FailedPrecondition, Unavailable
 */
export async function requireNoLaterTrashed(
  { moves, state }: ChangedFleet,
  { createdAt, generation = 0, node, volumeId }: Pick<BecomingCopy, 'createdAt' | 'generation' | 'node' | 'volumeId'>,
  isWord: boolean,
): Promise<void> {
  const there = state.nodes.filter(({ isLinked }) => isLinked);
  const found = await fewAtOnce(there, async ({ name }) => {
    try {
      const { trashed } = await moves.copyAt(name, volumeId);
      return { name, trashed };
    } catch (error) {
      // Its driver is older, and has no volume that has moved between nodes.
      if (!isWord || isRefusal(error)) return { name, trashed: undefined };
      throw error;
    }
  });
  const later = found.find(({ trashed }) => isLaterTrashed(trashed, { createdAt, generation }));
  if (later === undefined) return;
  throw new FailedPrecondition(
    `node ${later.name} has a later copy of volume ${volumeId} in its trash: restore that one, with --node ${later.name}; or purge it there first, if the earlier copy on node ${node} is meant.`,
  );
}

/** Finds the nodes among these that have handed over the very copy which is wished, and have not got the volume again. */
async function thoseBefore(
  { moves }: ChangedFleet,
  { node, volumeId }: WishedCopy,
  names: readonly string[],
): Promise<string[]> {
  const left = await leftAt(moves, node, volumeId).catch(() => undefined);
  const found: string[] = [];
  for (const name of new Set(names)) {
    const handed = await moves.handedOverBy(name, volumeId).catch(() => undefined);
    if (handed !== undefined && left !== undefined && isBehind(handed, node, left)) found.push(name);
  }
  return found;
}

/** Finds the nodes among these that are there, and have no copy of the volume and no note of one, or that are forgotten. */
async function thoseWithout(
  { moves, state }: ChangedFleet,
  volumeId: string,
  names: readonly string[],
): Promise<string[]> {
  const hasNothing = async (name: string) => {
    const { isHere, trashed } = await moves.copyAt(name, volumeId);
    return isHere === false && trashed === undefined && (await moves.noteAt(name, volumeId)).generation === 0;
  };
  const found: string[] = [];
  for (const name of new Set(names)) {
    if (state.isForgotten(name) || (await hasNothing(name).catch(() => false))) found.push(name);
  }
  return found;
}

/**
 * Has an order carried out by which a copy becomes the volume, as an operator says that the other node is lost. Whether it is, is
 * checked before.
 * @param order gets the node that a PersistentVolume names wrongly, as the second word says
 * @throws HoldfastError
 */
export async function takeFromLost<T>(
  fleet: ChangedFleet,
  { word, ...copy }: Ends & MeantCopy & Pick<BecomingCopy, 'word'>,
  order: (lost: LostNode, wrong: string | undefined) => Promise<T>,
): Promise<T> {
  const { createdAt, leftGeneration: generation, lostNode, node, volumeId } = copy;
  const wished = { volumeId, node, otherNode: lostNode, isOtherLost: true, createdAt, generation, word };
  const wrong = await requireAlone(fleet, wished);
  // The copy that was taken back last may be the one on the lost node.
  return takeBack(fleet, copy, ({ earlier, words }) =>
    order({ lostNode, laterThan: earlier?.generation, words }, wrong),
  );
}

/**
 * Has an order carried out by which a copy becomes the volume again, although another node may have a disk with a later one, or get it.
 * That is noted before; then the note gets the generation by which each other copy is known to be an earlier one.
 * @param isNeedless true if there is no other copy, on no disk: the note goes then, and the one before it stands again
 * @throws HoldfastError
 */
export async function takeBack<T>(
  { api, moves, place, state }: ChangedFleet,
  copy: Ends & (ExactCopy | MeantCopy),
  order: (note: TakenBack) => Promise<T>,
  isNeedless: (result: T) => boolean = () => false,
): Promise<T> {
  const { lostNode, node, volumeId } = copy;
  const before = (await readTakenBack(api, place)).get(volumeId);
  let asked: string | undefined;
  if (before !== undefined && before.node !== node && before.node !== lostNode && before.generation === undefined) {
    // Refused while it takes the volume back. One that is forgotten may have taken it back: the next word makes that copy an earlier one.
    if (!state.isForgotten(before.node) && (await moves.copyAt(before.node, volumeId)).isVolume) {
      throw new FailedPrecondition(`volume ${volumeId} was taken back by node ${before.node}: it is there.`);
    }
    asked = before.at;
  }
  const note = await noteTakingBack(api, place, { ...copy, asked, isLost: (name) => state.isForgotten(name) });
  let [isDone, isRefused, isAlone] = [false, false, false];
  try {
    const result = await order(note);
    isDone = true;
    isAlone = isNeedless(result);
    return result;
  } catch (error) {
    // Also if the pool of the copy is no pool of its node any more.
    isRefused = isRefusal(error) || (error instanceof HoldfastError && error.code === 'INVALID_ARGUMENT');
    throw error;
  } finally {
    // Otherwise the controller does it a minute later.
    const seen = await moves.copyAt(node, volumeId).catch(() => undefined);
    // An answer may be lost, or the order given twice. Where it has failed, it may yet be carried out: the note stays.
    const isSure = seen !== undefined && (isDone || (seen.isVolume && seen.generation > 0));
    if (isAlone && note.isRenewed !== true) await dropTakenBack(api, place, volumeId, note).catch(() => undefined);
    else if (isSure) await settleTakenBack(api, place, volumeId, { note, seen }).catch(() => undefined);
    else if (isRefused && seen !== undefined && note.isRenewed !== true)
      await dropTakenBack(api, place, volumeId, note).catch(() => undefined);
  }
}

/** A copy that is refused has not become the volume. Its node may say nothing of that later, as it has none. */
function isRefusal(error: unknown): boolean {
  return error instanceof HoldfastError && ['ALREADY_EXISTS', 'FAILED_PRECONDITION', 'NOT_FOUND'].includes(error.code);
}
