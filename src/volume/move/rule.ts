/*
 * The rule by which a volume moves: at any time at most one copy of it can be used, whatever dies, is cut off, comes back
 * with an old disk or answers late. Pure functions; `rule.test.ts` searches all states that they can lead to.
 *
 * Each copy has a mark beside its record, on its pool's disk. Each node notes, on another disk, which generation of the
 * volume is the valid one. A move has these steps, and the process at either end may die between any two:
 *
 * 1. The source is fenced (`closeCopy`): it is not in use, and cannot be used from then on. Until it is handed over, this
 *    can be undone (`openCopy`), by the source alone.
 * 2. The target reads what it lacks. It asks for the volume, naming the fence under which it has read.
 * 3. The source hands it over (`giveCopy`): first its node notes the next generation, then the mark says so. From then on
 *    this copy is never used again.
 * 4. The target, which waits for this very answer, commits (`commitDraft`): its copy has the next generation. Between nodes its node notes
 *    that generation before, with the name of the source, as a disk may have the copy from then on; and after it that it has the volume.
 * 5. The source hears of it, and goes to the trash (`settleCopy`).
 *
 * A fence has a random id, never used before. So the answer to a request of an earlier fence hands nothing over, and a
 * target that has read under two fences in turn cannot pass for one that has read under one.
 *
 * A copy that was handed over to another node is taken back only once that node has noted a later generation than the one
 * that it would commit (`disclaim`): no late answer makes it commit, and no disk that comes back has a copy to be used.
 *
 * The target's disk may be lost after the switch, while its node is well. That node notes a generation that is later than each copy
 * which such a disk can have (`disclaimLost`), and only then the copy that was left becomes the volume again.
 *
 * The source may be lost between the two steps, and never come back. By the operator's word the target's copy becomes the volume then, if all of
 * it was read under one fence (`finishDraft`), in a generation that is later than that of each copy that may come back. If only the
 * source's disk is lost, its node gives up each copy of that first (`disclaimLost`), and the target's becomes later than all those.
 *
 * A disk may be put into another node, with a copy on it that was handed over to another pool of the node that it was in. The
 * note of the hand-over stays there. So the mark names that node, and the copy counts as one that went to another node
 * (`whereElse`).
 *
 * A snapshot that follows its volume moves by the same rule. It never changes, so it is read under its fence as before, and
 * it can be removed (`isRemovable`): nothing is handed over of a copy that is gone. Each of its fences is a move with a
 * separate id, so that no word of an earlier snapshot of the same name counts for a later one. The id says to which pool it goes:
 * no other one that has read under the same fence commits with the same answer.
 */

/** The mark beside the record of a copy. A volume that was never moved has none, and is of generation 0. */
export interface CopyMark {
  /** The number of moves of the volume until this copy became the volume. */
  readonly generation: number;
  /** Set while the copy is fenced. */
  readonly fence?: Fence | undefined;
}

export interface Fence {
  readonly moveId: string;
  /** Random: no two fences have the same one. */
  readonly fenceId: string;
  /** True once the copy has been handed over. */
  readonly isGiven: boolean;
  /** The node that it moves to; undefined: to another pool of its node. */
  readonly to?: string | undefined;
  /** The node that has handed it over to another one of its pools. Earlier drivers did not say. */
  readonly by?: string | undefined;
}

/** A fence before it stands. */
export type NewFence = Omit<Fence, 'by' | 'isGiven'>;

/** The note of a node, on another disk than the copies. */
export interface Noted {
  /** The generation that is the valid one; 0: the volume has never moved away from here. */
  readonly generation: number;
  /** The other node that has it, or may have; undefined: this one. */
  readonly at?: string | undefined;
  /** The name of the node that has the note. */
  readonly node: string;
}

export const unmarked: CopyMark = { generation: 0 };

/** The reason why a copy cannot be used: it is of an older generation, was handed over, or waits for that. */
export type Unusable = 'old' | 'given' | 'closed';

/**
 * Returns the reason why a copy must not be used; undefined: it is the volume.
 * @param validGeneration as this copy's node has noted it
 */
export function whyUnusable({ fence, generation }: CopyMark, validGeneration: number): Unusable | undefined {
  if (generation < validGeneration) return fence === undefined ? 'old' : 'given';
  if (fence === undefined) return undefined;
  return fence.isGiven ? 'given' : 'closed';
}

/**
 * True if a copy is an earlier one than that which was handed over last, as on a disk that was put back: it was never handed over, or its node
 * has noted the hand-over of a later one to another node since. A driver that was killed as it handed the copy over leaves it like the first,
 * too: all of it was read under that very fence then, and the move goes on.
 * @param noted by the node of the copy; undefined: the copy is that of a hand-over which is known
 */
export function isEarlier(
  { mark, why }: { readonly mark: CopyMark; readonly why?: Unusable | undefined },
  noted?: Noted,
): boolean {
  const isPassed = noted?.at !== undefined && isPast(mark.generation + 1, noted.generation);
  return why === 'old' || (why === 'given' && (mark.fence?.isGiven !== true || isPassed));
}

/**
 * True if a node may have given up a copy of its disk as that was said to be lost (`disclaimLost`), so that it counts as an earlier one; it may
 * be one, too.
 */
export function mayBeGivenUp({ generation }: CopyMark, noted: Noted): boolean {
  return noted.at !== undefined && noted.generation - generation >= movesOfLost;
}

/** True if that copy is the volume, or will be once its fence ends. */
export function isVolume({ why }: { readonly why?: Unusable | undefined }): boolean {
  return why === undefined || why === 'closed';
}

/** True if a snapshot may be removed: this copy is the snapshot. Its move, if there is one, comes to nothing. */
export function isRemovable(mark: CopyMark, validGeneration: number): boolean {
  return isVolume({ why: whyUnusable(mark, validGeneration) });
}

/**
 * The other node that may have the volume, by a copy that is not the volume any more; undefined: it is on this node, if it is
 * anywhere.
 */
export function whereElse(mark: CopyMark, noted: Noted): string | undefined {
  // The note is written first, so that of this hand-over is there, or a later one, or the note was lost.
  if (noted.generation > mark.generation) return noted.at;
  const { by, isGiven, to } = mark.fence ?? { isGiven: false };
  if (!isGiven) return undefined;
  return to ?? (by === noted.node ? undefined : by);
}

/** The fence of a move. The caller has seen that the copy is not in use, and keeps others away until the mark is durable. */
export function closeCopy(mark: CopyMark, validGeneration: number, fence: NewFence): CopyMark | undefined {
  if (whyUnusable(mark, validGeneration) !== undefined) return undefined;
  return { generation: mark.generation, fence: { ...fence, isGiven: false } };
}

/** The id of the move of a snapshot to another pool. */
export function snapshotMoveId(random: string, to: string): string {
  return `${random} ${to}`;
}

/** The pool that it goes to. Earlier drivers did not say. */
export function targetOf(snapshotMove: string): string | undefined {
  const space = snapshotMove.indexOf(' ');
  return space < 0 ? undefined : snapshotMove.slice(space + 1);
}

/**
 * True if the fence of a snapshot is for its move to that pool. Earlier drivers did not say where it goes.
 * @param node of that pool; undefined: this one
 */
export function isFenceFor({ moveId, to: toNode }: Fence, to: string, node?: string): boolean {
  if (toNode !== node) return false;
  return (targetOf(moveId) ?? to) === to;
}

/** Ends the fence of a move that was given up; undefined: it cannot be, as the copy may have been handed over. */
export function openCopy(mark: CopyMark, validGeneration: number, moveId: string): CopyMark | undefined {
  const { fence, generation } = mark;
  if (whyUnusable(mark, validGeneration) !== 'closed' || fence?.moveId !== moveId) return undefined;
  return { generation };
}

/** The request of a target that has read all of the copy under one fence. */
export interface Request {
  readonly moveId: string;
  readonly fenceId: string;
}

export interface Given {
  /** Noted by the source's node first, durably. */
  readonly validGeneration: number;
  /** Written next. Only then the answer goes out. */
  readonly mark: CopyMark;
}

/** Hands the copy over. The same request again gets the same answer; undefined: it gets nothing. */
export function giveCopy(
  mark: CopyMark,
  { at, generation: validGeneration, node }: Noted,
  request: Request,
): Given | undefined {
  const { fence, generation } = mark;
  const next = generation + 1;
  if (fence?.moveId !== request.moveId || fence.fenceId !== request.fenceId) return undefined;
  // A death between the two steps, or a target that missed the answer: the node has noted this very hand-over.
  if (validGeneration > next || (validGeneration === next && at !== fence.to)) return undefined;
  const by = fence.to === undefined ? { by: fence.by ?? node } : {};
  return { validGeneration: next, mark: { generation, fence: { ...fence, ...by, isGiven: true } } };
}

/** The word of an end that it has a copy, which is not a draft any more. */
export interface Arrived {
  readonly moveId: string;
  readonly generation: number;
}

/**
 * True if the source goes to the trash: its target has committed. An old disk may have forgotten the hand-over, or the fence, too.
 * @param validGeneration as its node has noted it
 */
export function settlesCopy({ fence, generation }: CopyMark, arrived: Arrived, validGeneration = 0): boolean {
  const isLeft = fence === undefined ? generation < validGeneration : fence.moveId === arrived.moveId;
  return isLeft && arrived.generation > generation;
}

/**
 * True if a node has handed over this very copy, by its note, and has had no later one since: the volume has not come back to it.
 * @param node that it was handed over to, which has the copy
 */
export function isBehind({ at, generation }: Omit<Noted, 'node'>, node: string, copy: CopyMark): boolean {
  return at === node && generation === copy.generation;
}

/** The target's copy on its way. */
export interface DraftMark {
  readonly moveId: string;
  /** The fence under which all that it lacked was read; undefined: not all of it has been. */
  readonly readUnder?: string | undefined;
}

/**
 * True if a copy on its way may be the last one with all of the volume: all of it was read, and not from a copy that is the volume, or
 * was handed over as it was then. Its source may have lost the volume, or have an earlier one, as on a disk that was put back.
 * @param readUnder the fence under which all of it was read; undefined: not all of it has been
 * @param source undefined: it has no copy, or is lost
 */
export function mayBeLast(
  readUnder: string | undefined,
  source: { readonly mark: CopyMark; readonly why?: Unusable | undefined } | undefined,
): boolean {
  if (readUnder === undefined) return false;
  if (source === undefined) return true;
  return !isVolume(source) && source.mark.fence?.fenceId !== readUnder;
}

/** The answer of the source, to a request that this process made and still waits for. */
export interface Answer extends Request {
  readonly generation: number;
}

/** True if a node commits no copy of that generation: the volume was there as a later one, and has gone on. */
export function isPast(generation: number, validGeneration: number): boolean {
  return validGeneration > generation;
}

/**
 * True if the source of a copy on its way has noted a later one since: it has had the volume again, or has handed it over to a third node.
 * @param generation of the source, as it was read
 * @param target the node that has the copy on its way
 */
export function isPassedOver(generation: number, noted: Noted, target: string): boolean {
  return isPast(generation, noted.generation) && noted.at !== target;
}

/**
 * True if a node has given up, for its source, the copy that waits on it (`disclaim`): the source may have had the volume again since. An order
 * that makes the copy the volume notes the same before the commit (`finishDraft`), by a much later generation.
 * @param generation of the source, as it was read
 */
export function hasGivenUp(generation: number, noted: Noted, source: string): boolean {
  const later = noted.generation - generation;
  return noted.at === source && later > 1 && later < movesOfLost;
}

/**
 * True if a node has committed that very copy before: the disk with the draft is as it was before that, and the later one may be anywhere. A
 * driver that was killed before the commit has noted the name of the source (`Noted.at`).
 * @param from the node that it comes from; undefined: a pool of this one, where the hand-over itself is noted in this way
 */
export function wasCommitted(generation: number, noted: Noted, from: string | undefined): boolean {
  return from !== undefined && noted.at === undefined && noted.generation === generation;
}

/** The mark of the target's copy, which is committed together with it; undefined: the answer is not for this draft, or it was committed before. */
export function commitDraft(draft: DraftMark, noted: Noted, answer: Answer, from?: string): CopyMark | undefined {
  if (draft.moveId !== answer.moveId || draft.readUnder !== answer.fenceId) return undefined;
  // An old disk with a draft whose volume has been here, and has moved on.
  if (isPast(answer.generation, noted.generation)) return undefined;
  if (wasCommitted(answer.generation, noted, from)) return undefined;
  return { generation: answer.generation };
}

/**
 * True if a node may have committed a copy that was handed over to it: it notes that before. A driver that is older has noted nothing.
 * @param given the mark of the source
 */
export function mayHaveCommitted(given: CopyMark, noted: Noted): boolean {
  return noted.generation > given.generation;
}

/**
 * True if a node has committed a copy that was handed over to it, by its note on another disk, and the volume has not gone on from there to
 * another node: it is there, on a disk that may be away.
 * @param given the mark of the source
 */
export function hasCome(given: Pick<CopyMark, 'generation'>, noted: Noted): boolean {
  return noted.at === undefined && noted.generation > given.generation;
}

/** True if the volume has gone on from a node to which that copy was handed over. */
export function hasGoneOn(given: Pick<CopyMark, 'generation'>, noted: Noted, source: string): boolean {
  // An earlier word to the same source is noted in this way, too.
  return noted.generation > given.generation + 1 && noted.at !== source;
}

/**
 * The generation that a node notes which gives up the copy that it could commit. It has no copy, and says so only once this
 * is durable. Nothing that was handed over before is committed there from then on.
 * @param given the mark of the source, which has been handed over
 * @param what a snapshot that has come has the same bytes as the copy that was left
 * @returns undefined: it has committed that copy, and the volume is here, or has gone on
 */
export function disclaim(
  given: CopyMark,
  noted: Noted,
  source: string,
  what: 'snapshot' | 'volume' = 'volume',
): number | undefined {
  if (hasGoneOn(given, noted, source) || (what === 'volume' && hasCome(given, noted))) return undefined;
  return Math.max(given.generation + 2, noted.generation);
}

/**
 * The same where the node was installed again, or a pool of it is lost, as an operator says, after the volume has come to it, or before it has
 * left: the other node has all of it then (`finishDraft`). No other pool of the node has anything of the volume. Since it came, it may have moved between pools of the node: the note, which is on another disk, says how often. That
 * disk may be lost, too: then no one knows.
 * A disk that comes back, also with a fence, has a copy that is neither used nor handed over by that node.
 * @returns undefined: the volume has gone on to another node from here; or a node that says of itself that it is lost has a note of it
 */
export function disclaimLost(given: CopyMark, noted: Noted, source: string, what: LostHere): number | undefined {
  const came = given.generation + 1;
  const isOnPool = what === 'pool' && hasCome(given, noted);
  if (!isOnPool && disclaim(given, noted, source) === undefined) return undefined;
  const lost = isOnPool ? noted.generation : came;
  // The same word again is noted in this way already.
  return Math.max(lost + movesOfLost, noted.generation);
}

/** The part of a node that is lost, with a copy that it may have had. */
export type LostHere = 'node' | 'pool';

/** A draft of which all was read under a fence, as its note says. */
export interface WholeDraft extends DraftMark {
  /** The fence under which the source has said its generation. */
  readonly fenceId: string;
  readonly generation: number;
}

/**
 * Makes the target's copy the volume without an answer of its source: the operator's word, when that is lost. Whether it has handed
 * the volume over is not known. Each copy of it that comes back is of an older generation then: a node that comes back hears of
 * that one before it can use its copy, as the controller says; one that has lost a disk alone has given up all copies of that; pools of this
 * node have this note. The node notes the generation
 * first, as one that gives the copy up (`disclaim`): until the commit, a source that comes back after all can take its copy back.
 * @param lost the source, if it is another node; undefined: a pool of this one
 * @returns the mark; undefined: not all of it was read under one fence, or the volume has been on this node and gone on, or goes on
 */
export function finishDraft(draft: WholeDraft, noted: Noted, lost: LostNode | undefined): CopyMark | undefined {
  if (draft.readUnder !== draft.fenceId) return undefined;
  if (isPast(draft.generation + 1, noted.generation) && noted.at !== lost?.lostNode) return undefined;
  // A copy of a failed move within the node, which has handed the volume over to another one since.
  if (lost === undefined && noted.at !== undefined) return undefined;
  const { disclaimed } = lost ?? {};
  if (disclaimed !== undefined && isLateWord(disclaimed, draft.generation)) return undefined;
  return { generation: laterThanLost(Math.max(draft.generation + 1, noted.generation, disclaimed ?? 0), lost) };
}

/**
 * Makes a copy the volume again that was handed over, or is an old one: the operator's word, when the other copy is lost.
 * Every other copy that comes back to this node is of an older generation then. The node notes the generation first.
 * @param word of the other node that may have it (`whereElse`): the generation that it has noted with `disclaim`; or the name of
 * that node, which is lost: the operator says so
 * @returns the mark; its generation is the one to be noted
 */
export function takeBack(mark: CopyMark, noted: Noted, word?: number | LostNode): CopyMark | undefined {
  const why = whyUnusable(mark, noted.generation);
  if (why === undefined || why === 'closed') return undefined;
  const elsewhere = whereElse(mark, noted);
  // A node that has nothing of it, and is named anyway, may have a disk that is away.
  const isNamed = typeof word === 'object' && (elsewhere === undefined || word.lostNode === elsewhere);
  const lost = isNamed ? word : undefined;
  const disclaimed = typeof word === 'object' ? word.disclaimed : word;
  const isLate = disclaimed !== undefined && isLateWord(disclaimed, mark.generation);
  const isFree = elsewhere === undefined || (!isLate && (lost !== undefined || typeof word === 'number'));
  if (!isFree) return undefined;
  // Also where the node's notes are lost: the other copy has the next generation.
  const given = mark.fence?.isGiven === true ? mark.generation + 1 : mark.generation;
  // A node that has noted a later one commits nothing of it.
  // A word without more says the generation that this copy has then. It is a later one where a disk may have a copy that has moved on.
  const said = lost?.disclaimed ?? (typeof word === 'number' ? word - 1 : 0);
  return { generation: laterThanLost(Math.max(given, noted.generation, said), lost) };
}

/** True if a word that gives a copy up comes late: it is of an earlier hand-over than that of this generation. */
function isLateWord(disclaimed: number, generation: number): boolean {
  return disclaimed <= generation + 1;
}

/** A node that is lost, was installed again, or has lost a pool: it may have moved the volume on before, any number of times. */
export interface LostNode {
  readonly lostNode: string;
  /** The generation that it has noted with `disclaim` or `disclaimLost`; undefined: it is lost. */
  readonly disclaimed?: number | undefined;
  /** The generation of the copy that became the volume by such a word before, as the controller knows: that node may have it. */
  readonly laterThan?: number | undefined;
  /** The number of such words before of which no generation is known: each may have made a copy the volume. */
  readonly words?: number | undefined;
}

function laterThanLost(generation: number, lost: LostNode | undefined): number {
  if (lost === undefined) return generation + 1;
  const { laterThan = 0, words = 0 } = lost;
  return Math.max(generation, laterThan) + movesOfLost * (words + 1);
}

/** More moves than a volume makes: a node that is lost, or has lost its notes, may have moved it on any number of times. */
const movesOfLost = 1_000_000;
