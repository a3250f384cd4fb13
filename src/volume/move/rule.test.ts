import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type Answer,
  type Arrived,
  type CopyMark,
  closeCopy,
  commitDraft,
  disclaim,
  disclaimLost,
  finishDraft,
  type Given,
  giveCopy,
  hasGivenUp,
  hasGoneOn,
  isBehind,
  isEarlier,
  isPassedOver,
  isRemovable,
  type LostNode,
  type Noted,
  openCopy,
  type Request,
  settlesCopy,
  takeBack,
  unmarked,
  whereElse,
  whyUnusable,
} from './rule.ts';

/*
 * Two ends, each with a pool's disk and its node's disk, move one volume there and back. All orders of all events are
 * searched: messages come late, twice, or never; either process dies between any two steps; a disk comes back as it was, or is
 * put into another node. A third end takes part where it says so: another node, beside two nodes or beside one with two pools.
 */

interface Copy {
  readonly mark: CopyMark;
  /** The last write that it has; -1: half of one, half of another. */
  readonly version: number;
}

interface Draft {
  readonly moveId: string;
  readonly under?: string | undefined;
  /** The generation of the source, as it has said under that fence. */
  readonly generation?: number | undefined;
  /** The two halves of what it has read. */
  readonly first?: number | undefined;
  readonly second?: number | undefined;
}

interface Disk {
  readonly copy?: Copy | undefined;
  readonly trash?: Copy | undefined;
  readonly draft?: Draft | undefined;
}

type Message =
  | { readonly type: 'fenced'; readonly moveId: string; readonly fenceId: string; readonly generation?: number }
  | ({ readonly type: 'ask'; readonly process: number } & Request)
  | ({ readonly type: 'yes'; readonly process: number } & Answer)
  | ({ readonly type: 'done' } & Arrived)
  /** The source's word that it has handed over, and the target's that it commits nothing. */
  | { readonly type: 'given'; readonly moveId: string; readonly mark: CopyMark }
  | { readonly type: 'disclaimed'; readonly moveId: string; readonly word: number; readonly process?: number }
  /** The word of a target whose disk is lost. */
  | { readonly type: 'lost'; readonly moveId: string; readonly word: number }
  /** The word of a source whose disk is lost, with the order for the target, which hears it in time or never. */
  | { readonly type: 'source lost'; readonly moveId: string; readonly word: number };

type End = 0 | 1 | 2;
/** The third one is of a world that has a third node. */
const ends: readonly End[] = [0, 1, 2];
type Each<T> = readonly [T, T, T];

interface State {
  readonly disks: Each<Disk>;
  /** The valid generation, as each node has noted it; one node has one note. */
  readonly notes: Each<Noted>;
  readonly staged: Each<boolean>;
  /** The number of the process at each end. */
  readonly process: Each<number>;
  /** Everything that was ever sent: it may arrive, again and again, at any time. */
  readonly net: readonly Message[];
  /** A disk as it was at some time, and may be again. */
  readonly saved?: { readonly end: End; readonly disk?: Disk; readonly note?: Noted } | undefined;
  /** The disk of this end is in another node, which is neither of the two. */
  readonly away?: End | undefined;
  /** The note of that other node, while the disk is not there. */
  readonly noteAway?: Noted | undefined;
  /** The end that is lost, as the operator says. It may come back. */
  readonly lost?: End | undefined;
  /** The copy that became the volume by that word last, as the controller has noted it. */
  readonly sure?: { readonly end: End; readonly generation: number } | undefined;
  readonly fences: number;
  readonly latest: number;
  readonly deaths: number;
  readonly isDeleted?: true | undefined;
  /** The node of the target was installed again, and knows no move that it was ordered before. */
  readonly isForgotten?: true | undefined;
}

interface World {
  /** The first two pools are on one node, with one note. */
  readonly isOneNode: boolean;
  readonly oldDisks: boolean;
  /** The disks of pools, and not those of nodes: one that forgets what it has disclaimed a moment ago is not covered. */
  readonly onlyPools?: boolean;
  /** The operator takes copies back. */
  readonly takesBack: boolean;
  /** The operator gives moves up that may have been handed over. */
  readonly cancels?: boolean;
  /** The volume is deleted, wherever it is. */
  readonly deletes?: boolean;
  /** The volume is a snapshot: each fence is a separate move, it is removed also while it is fenced, and made again. */
  readonly isSnapshot?: boolean;
  /** A disk is replaced by an empty one. */
  readonly loses?: boolean;
  /** The disk that was lost last comes back as it was then. */
  readonly findsLost?: boolean;
  /** A disk is put into another node, where the operator takes its copy back, and comes back from there. */
  readonly goesAway?: boolean;
  /** An end is lost, and the operator has the other one go on without it. */
  readonly finishes?: boolean;
  /** The controller does not say which generation a copy has that became the volume by the operator's word before. */
  readonly forgetsSure?: boolean;
  /** The target is installed again, with empty disks. */
  readonly reinstalls?: boolean;
  /** Nothing is asked of the other nodes before it gives up what it could commit. */
  readonly asksNone?: boolean;
  /** A note of that word keeps back nothing: a node that comes back uses its copy as before. */
  readonly isUnheard?: boolean;
  /** There is a third pool, on another node than the other two, which moves go to and come from. */
  readonly isThree?: boolean;
  /** A node notes nothing of a volume that comes to it. */
  readonly notesNoArrival?: boolean;
  /** A node gives up what it could commit, also if the volume has been there and gone on. */
  readonly disclaimsAll?: boolean;
  /** The disk of a target is lost after the switch: its node says so, and the copy that was left is restored. */
  readonly restores?: boolean;
  /** The disk of a source is lost before the target has the volume: its node says so, and the target's copy becomes the volume. */
  readonly finishesWithoutDisk?: boolean;
  /** The node notes nothing of it. */
  readonly isUnnoted?: boolean;
  /** Its node is not asked whether it has handed the volume over to another one. */
  readonly asksNoNote?: boolean;
  /** Marks do not say which node has handed a copy over, as those of earlier drivers. */
  readonly isUnnamed?: boolean;
  readonly moves: readonly { readonly id: string; readonly from: End; readonly to: End }[];
  readonly maxFences: number;
  readonly maxWrites: number;
  readonly maxDeaths: number;
}

function with_<T>([first, second, third]: Each<T>, end: End, value: T): Each<T> {
  if (end === 0) return [value, second, third];
  return end === 1 ? [first, value, third] : [first, second, value];
}

function endsOf({ isThree }: World): readonly End[] {
  return isThree === true ? ends : [0, 1];
}

function send(net: readonly Message[], message: Message): readonly Message[] {
  const number = numberOf(message);
  if (net.some((each) => numberOf(each) === number)) return net;
  return [...net, message].sort((one, other) => numberOf(one) - numberOf(other));
}

const numbers = new Map<string, number>();
const numbered = Symbol('numbered');

/** The number of a value: equal ones have the same. To write a state as text takes longer than all else in a search. */
function numberOf(value: object & { [numbered]?: number }): number {
  let number = value[numbered];
  if (number === undefined) {
    const text = JSON.stringify(value);
    number = numbers.get(text) ?? numbers.size;
    numbers.set(text, number);
    // It is not copied with the other properties.
    Object.defineProperty(value, numbered, { value: number, enumerable: false });
  }
  return number;
}

/** Equal states have the same key. */
function keyOf({ away, deaths, disks, fences, isDeleted, isForgotten, latest, ...state }: State): string {
  const { lost, net, noteAway, notes, process, saved, staged, sure, ...others } = state;
  // A new property of a state must be a part of its key.
  others satisfies Record<string, never>;
  let key = `${fences} ${latest} ${deaths} ${away} ${lost} ${isDeleted} ${isForgotten}`;
  for (const each of [saved, noteAway, sure]) key += ` ${each && numberOf(each)}`;
  for (const end of ends) key += ` ${numberOf(disks[end])} ${numberOf(notes[end])} ${process[end]} ${staged[end]}`;
  for (const message of net) key += ` ${numberOf(message)}`;
  return key;
}

/** True if the node of that pool has another one. */
function hasNeighbour({ isOneNode }: World, end: End): boolean {
  return isOneNode && end !== 2;
}

function areOfOneNode(world: World, one: End, other: End): boolean {
  return hasNeighbour(world, one) && hasNeighbour(world, other);
}

function nodeOf({ isOneNode }: World, end: End): string {
  return isOneNode && end === 1 ? '0' : `${end}`;
}

function noted(world: World, { away, notes }: State, end: End, note: Omit<Noted, 'node'>): State['notes'] {
  const whole = { ...note, node: notes[end].node };
  return hasNeighbour(world, end) && away === undefined ? [whole, whole, notes[2]] : with_(notes, end, whole);
}

/** The processes after one has died, or has done what it waited for. */
function nextProcess(world: World, { process }: State, end: End): State['process'] {
  const number = process[end] + 1;
  return hasNeighbour(world, end) ? [number, number, process[2]] : with_(process, end, number);
}

/** The disk of an end goes into another node, or comes back from there. */
function* moveDisk(world: World, state: State, end: End): Generator<readonly [event: string, state: State]> {
  const { away, deaths, notes, noteAway, process, staged } = state;
  const other = end === 0 ? 1 : 0;
  if (!world.goesAway || staged[end] || deaths >= world.maxDeaths) return;
  const moved = { ...state, deaths: deaths + 1, process: with_(process, end, process[end] + 1) };
  if (away === undefined) {
    const note = noteAway ?? { generation: 0, node: 'away' };
    yield [`disk ${end} goes away`, { ...moved, away: end, notes: with_(notes, end, note) }];
  } else if (away === end && world.isOneNode) {
    yield [
      `disk ${end} comes back`,
      {
        ...moved,
        ...{ away: undefined, noteAway: notes[end], notes: with_(notes, end, notes[other]) },
        process: [process[other], process[other], process[2]],
      },
    ];
  }
}

/** An end is lost, or comes back: a node hears of a copy that the operator's word has made the volume before it can use its own. */
function* loseOrFind(world: World, state: State, end: End): Generator<readonly [event: string, state: State]> {
  const { deaths, disks, lost, notes, staged, sure } = state;
  if (world.finishes !== true) return;
  if (lost === undefined && !staged[end] && deaths < world.maxDeaths) {
    yield [`lose ${end}`, { ...state, deaths: deaths + 1, lost: end, process: nextProcess(world, state, end) }];
  }
  if (lost !== end) return;
  const found = { ...state, lost: undefined };
  const { copy } = disks[end];
  const isOlder =
    sure !== undefined && sure.end !== end && copy !== undefined && copy.mark.generation < sure.generation;
  if (!isOlder || world.isUnheard || hasNeighbour(world, end)) {
    yield [`find ${end}`, found];
    return;
  }
  const { generation } = sure;
  const notes_ =
    notes[end].generation < generation ? noted(world, state, end, { generation, at: nodeOf(world, sure.end) }) : notes;
  yield [
    `find ${end}`,
    { ...found, notes: notes_, disks: with_(disks, end, { ...disks[end], copy: undefined, trash: copy }) },
  ];
}

/** The operator says that the source is lost: the target's copy becomes the volume. */
function* finish(
  world: World,
  state: State,
  move: World['moves'][number],
): Generator<readonly [event: string, state: State]> {
  const { from, to } = move;
  const { disks, lost } = state;
  const isWithin = areOfOneNode(world, from, to);
  // On one node, its disk may be an empty one.
  const isLost = lost === from || (isWithin && disks[from].copy === undefined);
  if (world.finishes !== true || !isLost || lost === to) return;
  // A node that has lost one of its pools is not lost.
  if (!isWithin && hasNeighbour(world, from)) return;
  yield* finishWith(world, state, move, isWithin ? undefined : wordOf(world, state, from));
}

function* finishWith(
  world: World,
  state: State,
  { id, to }: World['moves'][number],
  word: LostNode | undefined,
): Generator<readonly [event: string, state: State]> {
  const { disks, fences, notes } = state;
  const { draft, ...target } = disks[to];
  if (draft === undefined || target.copy !== undefined) return;
  if (!isOf(id, draft.moveId) || draft.under === undefined || fences >= world.maxFences) return;
  const { first, generation = 0, moveId, second, under: fenceId } = draft;
  const readUnder = second === undefined ? undefined : fenceId;
  const note = world.asksNoNote ? { ...notes[to], at: undefined } : notes[to];
  const mark = finishDraft({ moveId, readUnder, fenceId, generation }, note, word);
  if (mark === undefined) return;
  const at = word === undefined ? {} : { at: word.lostNode };
  const before = { ...state, fences: fences + 1, notes: noted(world, state, to, { ...mark, ...at }) };
  yield [`finish ${id}: note`, before];
  const copy = { mark, version: first === second ? (first ?? -1) : -1 };
  const made = { ...before, disks: with_(disks, to, { trash: target.trash, copy }), ...sureOf(world, to, mark) };
  yield [`finish ${id}`, made];
  yield [`finish ${id}: end`, { ...made, notes: noted(world, state, to, mark) }];
}

function canFinish({ finishes, finishesWithoutDisk }: World): boolean {
  return finishes === true || finishesWithoutDisk === true;
}

/** The node of the source gives up what its disk has, which is lost, once all of the volume has come to the target. */
function* loseSource(
  world: World,
  state: State,
  { from, id, to }: World['moves'][number],
): Generator<readonly [event: string, state: State]> {
  const { disks, net, notes } = state;
  const { draft } = disks[to];
  // The order is given while no node has the volume.
  const isNowhere = ends.every((end) => disks[end].copy === undefined);
  if (world.finishesWithoutDisk !== true || !isNowhere || areOfOneNode(world, from, to)) return;
  if (draft?.second === undefined || !isOf(id, draft.moveId)) return;
  const at = nodeOf(world, to);
  const word = disclaimLost({ generation: draft.generation ?? 0 }, notes[from], at, 'pool');
  if (word === undefined) return;
  const notes_ = world.isUnnoted ? notes : noted(world, state, from, { generation: word, at });
  yield [`source lost ${id}: note`, { ...state, notes: notes_ }];
  const order = { type: 'source lost', moveId: draft.moveId, word } as const;
  yield [`source lost ${id}`, { ...state, notes: notes_, net: send(net, order) }];
}

function sureOf({ isOneNode, isThree }: World, end: End, { generation }: CopyMark): Pick<State, 'sure'> {
  return isOneNode && isThree !== true ? {} : { sure: { end, generation } };
}

function wordOf(world: World, { sure }: State, lost: End): LostNode {
  return { lostNode: nodeOf(world, lost), ...(world.forgetsSure !== true && { laterThan: sure?.generation }) };
}

/** False if the volume itself is in another node: the operator knows that it is not lost. */
function maySayLost({ away, disks }: State, end: End): boolean {
  return away === undefined || away === end || disks[away].copy === undefined;
}

function given(world: World, mark: CopyMark, note: Noted, request: Request): Given | undefined {
  const answer = giveCopy(mark, note, request);
  if (answer !== undefined) {
    const after = { generation: answer.validGeneration, at: answer.mark.fence?.to, node: note.node };
    assert.ok(!isEarlier({ mark: answer.mark, why: 'given' }, after), 'a copy that was just handed over');
  }
  if (world.isUnnamed !== true || answer?.mark.fence === undefined) return answer;
  const { by: _by, ...fence } = answer.mark.fence;
  return { ...answer, mark: { ...answer.mark, fence } };
}

/** True if the id is that of this move, or of one of its fences. */
function isOf(moveId: string, id: string | undefined): boolean {
  return id === moveId || id?.startsWith(`${moveId} `) === true;
}

/** True if the copy at this end may be removed. */
function canGo(world: World, state: State, end: End): boolean {
  const { copy } = state.disks[end];
  if (world.isSnapshot !== true || copy === undefined) return isUsable(state, end) && !state.staged[end];
  return isRemovable(copy.mark, state.notes[end].generation);
}

/** True if a pool that was lost comes back beside one where the volume has been since. */
function isFromLost({ finishes, isOneNode, isThree }: World): boolean {
  return finishes === true && isOneNode && isThree === true;
}

function isUsable({ disks, lost, notes }: State, end: End): boolean {
  const { copy } = disks[end];
  return lost !== end && copy !== undefined && whyUnusable(copy.mark, notes[end].generation) === undefined;
}

/** All states that one event leads to. */
function* next(world: World, state: State): Generator<readonly [event: string, state: State]> {
  const { deaths, disks, fences, latest, net, notes, process, saved, staged } = state;
  const put = (end: End, disk: Disk): State['disks'] => with_(disks, end, disk);
  const died = (end: End): State['process'] =>
    state.away === undefined ? nextProcess(world, state, end) : with_(process, end, process[end] + 1);

  for (const end of endsOf(world)) {
    const others = ends.filter((each) => each !== end);
    const disk = disks[end];
    yield* loseOrFind(world, state, end);
    if (state.lost === end) continue;
    if (world.maxWrites > 0 && isUsable(state, end) && !staged[end])
      yield [`stage ${end}`, { ...state, staged: with_(staged, end, true) }];
    if (staged[end]) yield [`unstage ${end}`, { ...state, staged: with_(staged, end, false) }];
    if (staged[end] && disk.copy !== undefined && latest < world.maxWrites) {
      const copy = { ...disk.copy, version: latest + 1 };
      yield [`write ${end}`, { ...state, latest: latest + 1, disks: put(end, { ...disk, copy }) }];
    }
    if (deaths < world.maxDeaths && !world.reinstalls && !world.findsLost)
      yield [`die ${end}`, { ...state, deaths: deaths + 1, process: died(end) }];
    yield* moveDisk(world, state, end);
    const mayTake = world.takesBack && maySayLost(state, end);
    // On one node: the other pool, which is open, has no copy. One that comes back is older by the node's note.
    // Of a copy that went to another pool of its node no other node is asked.
    const isWithinNode = hasNeighbour(world, end) && disk.copy?.mark.fence?.to === undefined;
    const seen = isWithinNode ? others.filter((each) => each !== 2) : others;
    const isAlone = seen.every((each) => disks[each].copy === undefined || state.lost === each) || state.away === end;
    // Between nodes: the other one is lost, and the operator says so of this move.
    const { lost } = state;
    const word = lost === undefined || hasNeighbour(world, lost) ? undefined : wordOf(world, state, lost);
    if (mayTake && disk.copy !== undefined && isAlone && fences < world.maxFences) {
      const mark = takeBack(disk.copy.mark, notes[end], word);
      if (mark !== undefined) {
        // Its disk was never put back: no later one was handed over here.
        const isLast = world.oldDisks === true || isFromLost(world) || disk.copy.mark.fence?.isGiven !== true;
        assert.ok(isLast || !isEarlier({ mark: disk.copy.mark, why: 'given' }, notes[end]), 'the last copy');
        const before = {
          ...state,
          fences: fences + 1,
          notes: noted(world, state, end, { generation: mark.generation }),
        };
        yield [`take back ${end}: note`, before];
        const sure = word === undefined ? {} : sureOf(world, end, mark);
        yield [`take back ${end}`, { ...before, ...sure, disks: put(end, { ...disk, copy: { ...disk.copy, mark } }) }];
      }
    }
    if (mayTake && disk.copy === undefined && disk.trash !== undefined) {
      const { mark } = disk.trash;
      const note = notes[end].generation < mark.generation ? { generation: mark.generation } : notes[end];
      if (whereElse(mark, notes[end]) === undefined) {
        const restored = { ...disk, copy: disk.trash, trash: undefined };
        yield [`undelete ${end}`, { ...state, notes: noted(world, state, end, note), disks: put(end, restored) }];
      }
    }
    // A target whose source has not heard yet that it has committed deletes nothing.
    const isSettled = others.every((each) => disks[each].copy?.mark.fence === undefined);
    if (world.deletes && canGo(world, state, end) && isSettled && !state.isDeleted) {
      const gone = { ...state, isDeleted: true, notes: noted(world, state, end, { generation: 0 }) } as const;
      const rest = world.isSnapshot ? { trash: disk.trash, draft: disk.draft } : { trash: disk.copy };
      yield [`delete ${end}`, { ...gone, disks: put(end, rest) }];
    }
    const isNowhere = ends.every((each) => disks[each].copy === undefined);
    if (world.isSnapshot && state.isDeleted && isNowhere && latest < 1 && notes[end].generation === 0) {
      // Another one of the same name.
      const made = { mark: unmarked, version: latest + 1 };
      const again = { ...state, isDeleted: undefined, latest: latest + 1 };
      yield [`make again ${end}`, { ...again, disks: put(end, { ...disk, copy: made }) }];
    }
    if (
      (world.loses || (world.finishes && hasNeighbour(world, end))) &&
      !staged[end] &&
      deaths < world.maxDeaths &&
      disk.copy !== undefined
    ) {
      const kept = world.findsLost === true ? { saved: { end, disk } } : {};
      yield [`lose disk ${end}`, { ...state, deaths: deaths + 1, process: died(end), disks: put(end, {}), ...kept }];
    }
    if (world.reinstalls && state.isForgotten === undefined && end === 1 && !staged[end] && deaths < world.maxDeaths) {
      const notes_ = noted(world, state, end, { generation: 0 });
      yield [
        `reinstall ${end}`,
        { ...state, deaths: deaths + 1, process: died(end), disks: put(end, {}), notes: notes_, isForgotten: true },
      ];
    }
    if (!world.oldDisks && world.findsLost !== true) continue;
    if (saved === undefined) {
      if (!world.oldDisks) continue;
      yield [`save disk ${end}`, { ...state, saved: { end, disk } }];
      if (!world.onlyPools) yield [`save note ${end}`, { ...state, saved: { end, note: notes[end] } }];
    } else if (saved.end === end && !staged[end] && deaths < world.maxDeaths) {
      const reborn = { ...state, deaths: deaths + 1, process: died(end) };
      if (saved.disk !== undefined) yield [`old disk ${end}`, { ...reborn, disks: put(end, saved.disk) }];
      if (saved.note !== undefined)
        yield [`old note ${end}`, { ...reborn, notes: noted(world, state, end, saved.note) }];
    }
  }

  for (const { from, id: moveId, to } of world.moves) {
    const [source, target] = [disks[from], disks[to]];
    const { copy } = source;
    const { draft } = target;
    // Another node knows nothing of the move; its operator can end the fence.
    const isSourceHere = state.away !== from && state.lost !== from;
    const isTargetLost = state.lost === to;
    const isWithin = areOfOneNode(world, from, to);
    const fromNode = nodeOf(world, from);
    // A move that is ordered before that is forgotten, and another one comes later.
    const isForgotten = world.reinstalls === true && to === 1 && (moveId === again.id) !== (state.isForgotten === true);
    yield* finish(world, state, { from, id: moveId, to });
    yield* loseSource(world, state, { from, id: moveId, to });
    if (copy !== undefined && !staged[from] && fences < world.maxFences && isSourceHere && !isForgotten) {
      const mark = closeCopy(copy.mark, notes[from].generation, {
        ...{ moveId: world.isSnapshot ? `${moveId} ${fences}` : moveId, fenceId: `f${fences}` },
        ...(!isWithin && { to: nodeOf(world, to) }),
      });
      if (mark !== undefined) {
        yield [
          `close ${moveId}`,
          { ...state, fences: fences + 1, disks: put(from, { ...source, copy: { ...copy, mark } }) },
        ];
      }
    }
    if (copy !== undefined && state.lost !== from) {
      const fencedBy = isOf(moveId, copy.mark.fence?.moveId) ? copy.mark.fence?.moveId : moveId;
      const mark = openCopy(copy.mark, notes[from].generation, fencedBy ?? moveId);
      if (mark !== undefined) {
        yield [`open ${moveId}`, { ...state, disks: put(from, { ...source, copy: { ...copy, mark } }) }];
      }
      const { fence } = copy.mark;
      if (fence !== undefined && isOf(moveId, fence.moveId) && isSourceHere) {
        const fenced = { type: 'fenced', moveId: fence.moveId, fenceId: fence.fenceId } as const;
        const said = canFinish(world) ? { ...fenced, generation: copy.mark.generation } : fenced;
        yield [`tell ${moveId}`, { ...state, net: send(net, said) }];
      }
    }
    const draftOf = world.isSnapshot ? copy?.mark.fence?.moveId : moveId;
    if (state.away === to) continue;
    if (draft === undefined && target.copy === undefined && !isTargetLost && !isForgotten && draftOf !== undefined) {
      yield [`draft ${moveId}`, { ...state, disks: put(to, { ...target, draft: { moveId: draftOf } }) }];
    }
    if (draft !== undefined && isOf(moveId, draft.moveId) && !isTargetLost && !isForgotten) {
      yield [`discard ${moveId}`, { ...state, disks: put(to, { ...target, draft: undefined }) }];
      // Reads of the volume itself end with the fence; without an answer of the source nothing else shows that it stood.
      const isFenced = !canFinish(world) || copy?.mark.fence?.fenceId === draft.under;
      const content = isSourceHere && isFenced ? (copy ?? source.trash) : undefined;
      if (draft.under !== undefined && content !== undefined) {
        const { version } = content;
        if (draft.first === undefined) {
          yield [
            `read first ${moveId}`,
            { ...state, disks: put(to, { ...target, draft: { ...draft, first: version } }) },
          ];
        } else if (draft.second === undefined) {
          yield [
            `read second ${moveId}`,
            { ...state, disks: put(to, { ...target, draft: { ...draft, second: version } }) },
          ];
        }
      }
      if (draft.under !== undefined && draft.second !== undefined) {
        const ask = { type: 'ask', process: process[to], moveId: draft.moveId, fenceId: draft.under } as const;
        yield [`ask ${moveId}`, { ...state, net: send(net, ask) }];
      }
    }
    if (target.copy !== undefined && !isTargetLost) {
      const { generation } = target.copy.mark;
      const arrivedBy = world.isSnapshot ? copy?.mark.fence?.moveId : moveId;
      if (arrivedBy !== undefined) {
        const done = { type: 'done', moveId: arrivedBy, generation } as const;
        yield [`say done ${moveId}`, { ...state, net: send(net, done) }];
      }
    }
    const ownId = copy?.mark.fence?.moveId;
    if (
      world.cancels &&
      !isWithin &&
      copy !== undefined &&
      ownId !== undefined &&
      isOf(moveId, ownId) &&
      whyUnusable(copy.mark, notes[from].generation) === 'given' &&
      isSourceHere
    ) {
      yield [`tell given ${moveId}`, { ...state, net: send(net, { type: 'given', moveId: ownId, mark: copy.mark }) }];
    }
    const others = ends.filter((end) => end !== from && end !== to);
    // The order is given while no node has the volume.
    const isNowhere = ends.every((end) => disks[end].copy === undefined && disks[end].draft === undefined);
    const left = source.trash?.mark;
    if (world.restores && isNowhere && left !== undefined && left.fence?.to === nodeOf(world, to) && isSourceHere) {
      const word = disclaimLost(left, notes[to], fromNode, 'pool');
      if (word !== undefined) {
        const note = { generation: word, at: fromNode };
        const notes_ = world.isUnnoted ? notes : noted(world, state, to, note);
        yield [`disclaim lost ${moveId}: note`, { ...state, notes: notes_ }];
        const sent = send(net, { type: 'lost', moveId, word });
        yield [`disclaim lost ${moveId}`, { ...state, notes: notes_, net: sent }];
      }
    }
    for (const message of net) {
      if (!isOf(moveId, message.moveId)) continue;
      if (message.type === 'given' && target.copy === undefined && !isTargetLost && fences < world.maxFences) {
        // The node of a later generation than that of the given copy passes for one that has heard nothing of it.
        const note = world.disclaimsAll ? { ...notes[to], at: fromNode } : notes[to];
        const said = disclaim(message.mark, note, fromNode, world.isSnapshot ? 'snapshot' : 'volume');
        const isGone = hasGoneOn(message.mark, note, fromNode);
        // The volume has come here, to a disk that is away: a second word says that this is lost.
        const word = said ?? (isGone ? undefined : disclaimLost(message.mark, note, fromNode, 'pool'));
        // A third node may have the volume, or be waiting for it.
        const isElsewhere = others.some((end) => (disks[end].copy ?? disks[end].draft) !== undefined);
        if (world.reinstalls && world.asksNone !== true && isElsewhere) continue;
        if (word === undefined) {
          const done = { type: 'done', moveId: message.moveId, generation: notes[to].generation } as const;
          yield [`say that it has gone on ${moveId}`, { ...state, net: send(net, done) }];
          continue;
        }
        const notes_ = noted(world, state, to, { generation: word, at: fromNode });
        yield [`disclaim ${moveId}: note`, { ...state, notes: notes_ }];
        const answer = { type: 'disclaimed', moveId: message.moveId, word } as const;
        // A source with another disk has another process. The time is over by then of an order that makes the copy the volume.
        const sent = world.finishesWithoutDisk
          ? send(
              net.filter(({ type }) => type !== 'source lost'),
              { ...answer, process: process[from] },
            )
          : send(net, answer);
        yield [`disclaim ${moveId}`, { ...state, notes: notes_, net: sent }];
      }
      if (
        message.type === 'disclaimed' &&
        (message.process ?? process[from]) === process[from] &&
        copy?.mark.fence?.moveId === message.moveId &&
        fences < world.maxFences &&
        isSourceHere
      ) {
        const mark = takeBack(copy.mark, notes[from], message.word);
        if (mark !== undefined) {
          const before = {
            ...state,
            fences: fences + 1,
            notes: noted(world, state, from, { generation: mark.generation }),
          };
          yield [`take back ${from}: note`, before];
          yield [`take back ${from}`, { ...before, disks: put(from, { ...source, copy: { ...copy, mark } }) }];
        }
      }
      // It may come late: only this node has to have no other copy.
      if (message.type === 'lost' && left !== undefined && copy === undefined && fences < world.maxFences) {
        const mark = takeBack(left, notes[from], { lostNode: nodeOf(world, to), disclaimed: message.word });
        if (mark !== undefined && source.trash !== undefined) {
          const generation = { generation: mark.generation };
          const before = { ...state, fences: fences + 1, notes: noted(world, state, from, generation) };
          yield [`restore ${from}: note`, before];
          const restored = { draft: source.draft, copy: { ...source.trash, mark } };
          yield [`restore ${from}`, { ...before, disks: put(from, restored) }];
        }
      }
      if (message.type === 'source lost') {
        yield* finishWith(world, state, { from, id: moveId, to }, { lostNode: fromNode, disclaimed: message.word });
      }
      if (isTargetLost && (message.type === 'fenced' || message.type === 'yes')) continue;
      if (message.type === 'fenced' && draft?.moveId === message.moveId && draft.under !== message.fenceId) {
        const { fenceId: under, generation } = message;
        const heard = { moveId: message.moveId, under, ...(generation !== undefined && { generation }) };
        yield [`hear ${message.fenceId}`, { ...state, disks: put(to, { ...target, draft: heard }) }];
      }
      if (message.type === 'ask' && copy !== undefined && isSourceHere) {
        const handed = given(world, copy.mark, notes[from], message);
        if (handed === undefined) continue;
        const { mark, validGeneration } = handed;
        if (notes[from].generation !== validGeneration) {
          const at = mark.fence?.to === undefined ? {} : { at: mark.fence.to };
          const note = { generation: validGeneration, ...at };
          yield [`give ${moveId}: note`, { ...state, notes: noted(world, state, from, note) }];
          continue;
        }
        const answer = { ...message, type: 'yes', generation: validGeneration } as const;
        yield [
          `give ${moveId}`,
          { ...state, net: send(net, answer), disks: put(from, { ...source, copy: { ...copy, mark } }) },
        ];
      }
      if (
        message.type === 'yes' &&
        message.process === process[to] &&
        draft !== undefined &&
        target.copy === undefined
      ) {
        const readUnder = draft.second === undefined ? undefined : draft.under;
        const comesFrom = isWithin || world.isSnapshot ? undefined : fromNode;
        const mark = commitDraft({ moveId: draft.moveId, readUnder }, notes[to], message, comesFrom);
        if (mark === undefined) continue;
        const version = draft.first === draft.second ? (draft.first ?? -1) : -1;
        // From then on no process waits for this answer.
        const process_ = with_(process, to, process[to] + 1);
        const disks_ = put(to, { trash: target.trash, copy: { mark, version } });
        const { generation } = mark;
        // Its node notes that it may have it. After a death before the commit it asks again.
        const note = { generation, at: fromNode };
        const before = isWithin || world.notesNoArrival ? state : { ...state, notes: noted(world, state, to, note) };
        if (before !== state) yield [`commit ${moveId}: note`, before];
        const made = { ...before, disks: disks_, process: process_ };
        yield [`commit ${moveId}`, made];
        if (before !== state)
          yield [`commit ${moveId}: end`, { ...made, notes: noted(world, made, to, { generation }) }];
      }
      if (
        message.type === 'done' &&
        copy !== undefined &&
        isSourceHere &&
        settlesCopy(copy.mark, message, notes[from].generation)
      ) {
        yield [`settle ${moveId}`, { ...state, disks: put(from, { ...source, copy: undefined, trash: copy }) }];
      }
    }
  }
}

function firstOf({ isOneNode }: World): State {
  return {
    disks: [{ copy: { mark: unmarked, version: 0 } }, {}, {}],
    notes: [
      { generation: 0, node: '0' },
      { generation: 0, node: isOneNode ? '0' : '1' },
      { generation: 0, node: '2' },
    ],
    staged: [false, false, false],
    process: [0, 0, 0],
    net: [],
    fences: 0,
    latest: 0,
    deaths: 0,
  };
}

interface Searched {
  readonly states: Map<string, State>;
  /** For each state, the ones that lead to it. */
  readonly before: Map<string, string[]>;
}

/** Visits all states. @param check throws if a state is wrong; the error then has the events that lead to it */
function search(world: World, check: (state: State) => void): Searched {
  const first = firstOf(world);
  const start = keyOf(first);
  const states = new Map([[start, first]]);
  const before = new Map<string, string[]>();
  const cause = new Map<string, readonly [event: string, from: string]>();
  const queue = [start];
  for (let at = 0; at < queue.length; at++) {
    const key = queue[at] ?? assert.fail();
    const state = states.get(key) ?? assert.fail();
    for (const [event, to] of next(world, state)) {
      const toKey = keyOf(to);
      if (!world.oldDisks) {
        const known = before.get(toKey);
        if (known === undefined) before.set(toKey, [key]);
        else known.push(key);
      }
      if (states.has(toKey)) continue;
      states.set(toKey, to);
      cause.set(toKey, [event, key]);
      try {
        check(to);
      } catch (error) {
        assert.fail(
          `${error instanceof Error ? error.message : error}\n${pathTo(toKey, cause).join('\n')}\n${JSON.stringify(to)}`,
        );
      }
      queue.push(toKey);
    }
  }
  return { states, before };
}

function pathTo(key: string, cause: ReadonlyMap<string, readonly [string, string]>): string[] {
  const events: string[] = [];
  for (let at = cause.get(key); at !== undefined; at = cause.get(at[1])) events.unshift(at[0]);
  return events;
}

function requireOne(state: State): void {
  assert.ok(ends.filter((end) => isUsable(state, end)).length < 2, 'two copies can be used');
  assert.ok(state.staged.filter(Boolean).length < 2, 'two copies are in use');
  for (const end of ends) if (state.staged[end]) assert.ok(isUsable(state, end), 'a copy that is in use may not be');
}

/** Nothing that was written is missing in the copy that is used, and some copy has all of it. */
function requireWhole(state: State): void {
  const { disks, latest } = state;
  for (const end of ends) {
    if (isUsable(state, end)) assert.equal(disks[end].copy?.version, latest, 'the volume has lost a write');
  }
  const copies = disks.flatMap(({ copy, trash }) => [copy, trash]);
  assert.ok(
    copies.some((copy) => copy?.version === latest),
    'no copy has the last write',
  );
}

/** No node that has the volume says that it has gone on by a copy which another one has left. */
function requireNoneBehind(state: State): void {
  const { disks, notes } = state;
  for (const end of ends.filter((each) => isUsable(state, each))) {
    for (const other of ends) {
      for (const copy of [disks[other].copy, disks[other].trash]) {
        const isLeft = copy !== undefined && other !== end;
        assert.ok(
          !isLeft || !isBehind(notes[end], notes[other].node, copy.mark),
          `node ${end} has it, and is taken for behind`,
        );
      }
    }
  }
}

/** Each other copy that is not in use elsewhere, also on a disk that is lost, is of an older generation. */
function requireOlder({ disks, lost, sure }: State, end: End): void {
  const { copy } = disks[end];
  if (sure?.end !== end || copy === undefined || lost === undefined || lost === end) return;
  for (const other of [disks[lost].copy, disks[lost].trash]) {
    if (other !== undefined)
      assert.ok(other.mark.generation < copy.mark.generation, 'a copy that is lost is no older one');
  }
}

/** The same where the operator finishes moves. */
function requireFinished(state: State): void {
  requireOne(state);
  for (const end of ends) {
    if (!isUsable(state, end)) continue;
    assert.notEqual(state.disks[end].copy?.version, -1, 'a copy is used that was not read under one fence');
    requireOlder(state, end);
  }
  requireNoneBehind(state);
}

/** From each state the volume can be used again, if nothing else fails. */
function requireNoDeadEnd({ before, states }: Searched, isMeant: (state: State) => boolean = () => true): void {
  const live = [...states].flatMap(([key, state]) => (ends.some((end) => isUsable(state, end)) ? [key] : []));
  const found = new Set(live);
  for (let at = 0; at < live.length; at++) {
    for (const key of before.get(live[at] ?? assert.fail()) ?? []) {
      if (found.has(key)) continue;
      found.add(key);
      live.push(key);
    }
  }
  const stuck = [...states].filter(([key, state]) => !found.has(key) && isMeant(state));
  assert.deepEqual(stuck.slice(0, 1), []);
}

const there = { id: 'm1', from: 0, to: 1 } as const;
const on = { id: 'm3', from: 1, to: 2 } as const;
const again = { id: 'm4', from: 0, to: 1 } as const;
const back = { id: 'm2', from: 1, to: 0 } as const;
const usual = { maxFences: 2, maxWrites: 1, maxDeaths: 1, oldDisks: false, takesBack: false };

describe('one copy at a time, and it is whole', () => {
  for (const isOneNode of [true, false]) {
    const where = isOneNode ? 'on one node' : 'between two nodes';

    test(`${where}, whatever dies and whatever is late`, () => {
      const searched = search({ ...usual, isOneNode, moves: [there] }, (state) => {
        requireOne(state);
        requireWhole(state);
      });
      assert.ok(searched.states.size > 1000, `${searched.states.size} states`);
      requireNoDeadEnd(searched);
    });

    test(`${where}, there and back`, () => {
      const searched = search({ ...usual, isOneNode, moves: [there, back] }, (state) => {
        requireOne(state);
        requireWhole(state);
        requireNoneBehind(state);
      });
      requireNoDeadEnd(searched);
    });

    test(`${where}, with an old disk that comes back`, () => {
      search({ ...usual, isOneNode, moves: [there, back], oldDisks: true, maxWrites: 0 }, requireOne);
    });
  }

  test('between two nodes, there and back, where a node that has the volume again would be taken for behind without its note', () => {
    assert.throws(
      () => search({ ...usual, isOneNode: false, notesNoArrival: true, moves: [there, back] }, requireNoneBehind),
      /is taken for behind.*\ncommit m2\n/s,
    );
  });

  test('between two nodes, where a move is given up after the hand-over, and goes on later', () => {
    const world = { ...usual, isOneNode: false, cancels: true, moves: [there], maxFences: 3 };
    const searched = search(world, (state) => {
      requireOne(state);
      requireWhole(state);
    });
    // A process that dies in each try to take the copy back comes to no end: the search ends it.
    requireNoDeadEnd(searched, ({ fences }) => fences < world.maxFences);
  });

  const three = { ...usual, isOneNode: false, isThree: true, cancels: true, maxFences: 3, maxWrites: 0, maxDeaths: 0 };

  test('between three nodes, where a volume goes on to the third before its first node hears of it', () => {
    const world = { ...three, moves: [there, on] };
    const searched = search(world, (state) => {
      requireOne(state);
      requireWhole(state);
    });
    assert.ok(searched.states.size > 1000, `${searched.states.size} states`);
    requireNoDeadEnd(searched, ({ fences }) => fences < world.maxFences);
  });

  test('between three nodes, where the second gives up what it could commit although the volume has gone on', () => {
    assert.throws(
      () => search({ ...three, moves: [there, on], disclaimsAll: true }, requireOne),
      /two copies can be used.*\ncommit m1\n.*\ncommit m3\n.*\ndisclaim m1\n.*take back 0\n/s,
    );
  });

  test('between two nodes, where the second is installed again, and gives up what it could commit', () => {
    for (const maxWrites of [0, 1]) {
      const world = {
        ...usual,
        isOneNode: false,
        cancels: true,
        reinstalls: true,
        moves: [there, again],
        maxFences: 3,
        maxWrites,
      };
      const searched = search(world, requireOne);
      // One that has settled has its copy in the trash.
      requireNoDeadEnd(searched, ({ disks, fences }) => fences < world.maxFences && disks[0].copy !== undefined);
    }
  });

  test('between two nodes, where the second is installed again, and gets an old disk back', () => {
    const changes = { oldDisks: true, onlyPools: true, cancels: true, reinstalls: true, maxWrites: 0, maxDeaths: 2 };
    search({ ...usual, ...changes, isOneNode: false, moves: [there] }, requireOne);
  });

  test('between three nodes, where the second is installed again, and the volume has gone on', () => {
    const world = { ...three, maxDeaths: 1, reinstalls: true, moves: [there, on] };
    search(world, requireOne);
    assert.throws(
      () => search({ ...world, asksNone: true }, requireOne),
      /two copies can be used.*\nreinstall 1\n.*take back 0\n/s,
    );
  });

  test('between two nodes, where moves are given up, copies are restored, and an old disk comes back', () => {
    const changes = { oldDisks: true, onlyPools: true, takesBack: true, cancels: true, maxWrites: 0, maxDeaths: 1 };
    search({ ...usual, ...changes, isOneNode: false, moves: [there] }, requireOne);
  });

  test('between two nodes, where the disk of either is lost: the copy that was left is not used unasked', () => {
    search(
      {
        ...usual,
        isOneNode: false,
        loses: true,
        oldDisks: true,
        onlyPools: true,
        maxDeaths: 2,
        maxWrites: 0,
        moves: [there],
      },
      requireOne,
    );
  });

  const restored = { ...usual, isOneNode: false, loses: true, restores: true, maxWrites: 0 };

  test('between two nodes, where the disk of the second is lost after the switch, and the first copy is restored', () => {
    const world = { ...restored, moves: [there, back], maxDeaths: 1 };
    const searched = search({ ...world, moves: [there] }, requireOne);
    const isRestored = ({ disks, notes }: State) => (disks[0].copy?.mark.generation ?? 0) > notes[1].generation;
    assert.ok([...searched.states.values()].some(isRestored), 'nothing was restored');
    requireNoDeadEnd(searched, ({ disks, fences }) => fences < world.maxFences && disks[0].trash !== undefined);
    search(world, requireOne);
  });

  test('between two nodes, where the disk of the second is lost after the switch, and comes back after that', () => {
    const old = { ...restored, oldDisks: true, onlyPools: true, maxDeaths: 2, moves: [there] };
    search(old, requireOne);
    assert.throws(
      () => search({ ...old, isUnnoted: true }, requireOne),
      /two copies can be used.*\ncommit m1\n.*\ndisclaim lost m1\n(.*\n)?old disk 1\n/s,
    );
  });

  const withoutDisk = { ...usual, isOneNode: false, loses: true, finishesWithoutDisk: true, maxWrites: 0 };

  test('between two nodes, where the disk of the first is lost before the switch, and the copy that has come becomes the volume', () => {
    const world = { ...withoutDisk, maxDeaths: 1 };
    const searched = search({ ...world, moves: [there] }, requireFinished);
    const isFinished = ({ disks, notes }: State) => (disks[1].copy?.mark.generation ?? 0) > notes[0].generation;
    assert.ok([...searched.states.values()].some(isFinished), 'nothing was finished');
    const waits = ({ disks: [first, { draft }] }: State) => first.copy === undefined && draft?.second !== undefined;
    requireNoDeadEnd(searched, (state) => state.fences < world.maxFences && waits(state));
    search({ ...world, moves: [there, back] }, requireFinished);
  });

  test('between two nodes, where the disk of the first is lost before the switch, and comes back after that', () => {
    const found = { ...withoutDisk, findsLost: true, maxDeaths: 2, moves: [there] };
    search({ ...found, oldDisks: true, onlyPools: true }, requireFinished);
    search({ ...found, maxWrites: 1 }, requireFinished);
    search({ ...found, cancels: true, maxFences: 3 }, requireFinished);
    assert.throws(
      () => search({ ...found, isUnnoted: true }, requireFinished),
      /two copies can be used.*\nsource lost m1\n(.*\n)*old disk 0\n/s,
    );
  });

  for (const isOneNode of [true, false]) {
    const where = isOneNode ? 'on one node' : 'between two nodes';
    const lost = {
      ...usual,
      isOneNode,
      finishes: true,
      takesBack: true,
      cancels: !isOneNode,
      maxWrites: 0,
      moves: [there],
    };

    for (const bounds of [
      { maxWrites: 1, maxDeaths: 1, maxFences: 2 },
      { maxDeaths: 2, maxFences: 3 },
    ]) {
      const what = bounds.maxWrites === undefined ? 'both in turn are' : 'one is';
      test(`${where}, where ${what} lost, the operator has the other one go on, and it comes back`, () => {
        const world = { ...lost, ...bounds };
        const searched = search(world, requireFinished);
        const isFinished = (state: State) => state.lost === 0 && isUsable(state, 1);
        assert.ok([...searched.states.values()].some(isFinished), 'nothing was finished');
        const hasCopy = ({ disks }: State) => disks.some(({ copy, draft }) => (copy ?? draft?.second) !== undefined);
        requireNoDeadEnd(searched, (state) => state.fences < world.maxFences && hasCopy(state));
      });
    }

    test(`${where}, where one is lost, and comes back with an old disk`, () => {
      search({ ...lost, cancels: false, oldDisks: true, onlyPools: true, maxDeaths: 2 }, requireFinished);
    });
  }

  const lostInTurn = {
    ...usual,
    isOneNode: false,
    finishes: true,
    takesBack: true,
    maxWrites: 0,
    maxDeaths: 2,
    maxFences: 3,
  };

  test('between two nodes that are lost in turn, where the second word does not know of the first', () => {
    assert.throws(
      () => search({ ...lostInTurn, moves: [there], forgetsSure: true }, requireFinished),
      /(two copies can be used|no older one).*\ntake back 0\n.*\nfinish m1\n/s,
    );
  });

  test('between two nodes, where one that comes back does not hear of the word before it can use its copy', () => {
    assert.throws(
      () => search({ ...lostInTurn, moves: [there], isUnheard: true }, requireFinished),
      /two copies can be used.*\nfinish m1\n.*find 0\n/s,
    );
  });

  for (const isOneNode of [true, false]) {
    test(`a volume that was deleted is never there again by itself, ${isOneNode ? 'on one node' : 'between two nodes'}`, () => {
      const changes = { deletes: true, cancels: !isOneNode, maxWrites: 0 };
      search({ ...usual, ...changes, isOneNode, moves: isOneNode ? [there, back] : [there] }, (state) => {
        requireOne(state);
        if (state.isDeleted) for (const end of ends) assert.ok(!isUsable(state, end), 'a deleted volume can be used');
      });
    });
  }

  for (const isOneNode of [true, false]) {
    test(`a snapshot that follows its volume ${isOneNode ? 'on one node' : 'between two nodes'}, and may be removed and made again`, () => {
      const changes = { isSnapshot: true, deletes: true, maxWrites: 0, isOneNode };
      const searched = search({ ...usual, ...changes, moves: isOneNode ? [there, back] : [there] }, (state) => {
        requireOne(state);
        const isThere = ends.map((end) => canGo({ ...usual, ...changes, moves: [] }, state, end));
        assert.ok(isThere.filter(Boolean).length < 2, 'a snapshot is there twice');
        if (state.isDeleted) assert.ok(!isThere.includes(true), 'a snapshot that was removed is there again');
        else requireWhole(state);
      });
      assert.ok(searched.states.size > 1000, `${searched.states.size} states`);
      requireNoDeadEnd(searched, ({ isDeleted }) => isDeleted !== true);
    });
  }

  test('a snapshot between two nodes, whose move is given up after the hand-over, and goes on later; and it is removed', () => {
    const changes = { isSnapshot: true, deletes: true, cancels: true, maxWrites: 0, isOneNode: false, maxFences: 3 };
    const world = { ...usual, ...changes, moves: [there] };
    const searched = search(world, (state) => {
      requireOne(state);
      const isThere = ends.map((end) => canGo(world, state, end));
      assert.ok(isThere.filter(Boolean).length < 2, 'a snapshot is there twice');
      if (state.isDeleted) assert.ok(!isThere.includes(true), 'a snapshot that was removed is there again');
      else requireWhole(state);
    });
    assert.ok(searched.states.size > 1000, `${searched.states.size} states`);
    requireNoDeadEnd(searched, ({ fences, isDeleted }) => isDeleted !== true && fences < world.maxFences);
  });

  test('a snapshot between two nodes, of which one is lost, and comes back: its bytes may be there twice, and are the same', () => {
    const changes = {
      isSnapshot: true,
      takesBack: true,
      finishes: true,
      isUnheard: true,
      maxWrites: 0,
      isOneNode: false,
    };
    search({ ...usual, ...changes, maxDeaths: 1, moves: [there] }, requireWhole);
  });

  for (const isSnapshot of [false, true]) {
    const what = isSnapshot ? 'a snapshot' : 'a volume';
    const away = { isSnapshot, goesAway: true, takesBack: true, maxWrites: 0, maxDeaths: 2, moves: [there] };

    test(`${what} on one node, where a disk is put into another node, whose operator takes its copy back`, () => {
      const { states } = search({ ...usual, ...away, isOneNode: true, moves: [there, back] }, requireOne);
      assert.ok(states.size > 1000, `${states.size} states`);
    });

    test(`${what} between two nodes, where a disk is put into a third one, whose operator takes its copy back`, () => {
      search({ ...usual, ...away, isOneNode: false }, requireOne);
    });

    test(`${what} would be there twice if the mark did not name the node that has handed it over`, () => {
      assert.throws(
        () => search({ ...usual, ...away, isOneNode: true, isUnnamed: true }, requireOne),
        /two copies can be used.*\ndisk 0 goes away\n(take back|undelete) 0\n/s,
      );
    });
  }

  const beside = { ...usual, isOneNode: true, isThree: true, takesBack: true, maxWrites: 0, maxFences: 3 };
  const out = { id: 'm5', from: 0, to: 2 } as const;
  const home = { id: 'm6', from: 2, to: 0 } as const;

  for (const [where, moves] of [
    ['from a pool of it to another one, and from either to another node', [there, out, on]],
    ['to another node, and back to it', [out, home]],
  ] as const) {
    test(`a node with two pools beside another node: ${where}`, () => {
      const { states } = search({ ...beside, moves: moves.slice(0, 2) }, requireFinished);
      assert.ok(states.size > 10_000, `${states.size} states`);
      search({ ...beside, moves, maxDeaths: 0, cancels: true }, requireFinished);
      search({ ...beside, moves: moves.slice(0, 2), finishes: true }, requireFinished);
    });
  }

  test('a node with two pools beside another node, where an old disk comes back', () => {
    search({ ...beside, moves: [there, out], oldDisks: true, onlyPools: true, maxFences: 2 }, requireFinished);
  });

  test('a node with two pools beside another node: a copy of a failed move within it would be a second volume without the note', () => {
    assert.throws(
      () => search({ ...beside, moves: [there, out], finishes: true, asksNoNote: true }, requireFinished),
      /two copies can be used.*\nopen m1\n(.*\n)*give m5\n(.*\n)*finish m1\n/s,
    );
  });

  test('a snapshot on one node, where the operator takes a copy back, and an old disk comes back', () => {
    const changes = { isSnapshot: true, isOneNode: true, oldDisks: true, takesBack: true, maxWrites: 0 };
    search({ ...usual, ...changes, moves: [there] }, requireOne);
  });

  test('on one node, where the operator takes a copy back, and an old disk comes back', () => {
    search({ ...usual, isOneNode: true, moves: [there], oldDisks: true, takesBack: true, maxWrites: 0 }, requireOne);
  });
});

test('a copy that is taken back is of a later generation than the one that it was handed over to, notes or no notes', () => {
  const request = { moveId: 'm', fenceId: 'f' };
  const handed = giveCopy(
    { generation: 3, fence: { ...request, isGiven: false } },
    { generation: 3, node: 'a' },
    request,
  );
  assert.ok(handed);
  for (const generation of [0, 3, handed.validGeneration]) {
    assert.ok((takeBack(handed.mark, { generation, node: 'a' })?.generation ?? 0) > handed.validGeneration);
  }
});

test('a word that gives up an earlier hand-over takes nothing back of a later one', () => {
  const copy: CopyMark = { generation: 2, fence: { moveId: 'm', fenceId: 'f', isGiven: true, to: 'b' } };
  const noted: Noted = { generation: 3, at: 'b', node: 'a' };
  assert.equal(whereElse(copy, noted), 'b');
  for (const word of [undefined, 2, 3]) assert.equal(takeBack(copy, noted, word), undefined);
  assert.ok((takeBack(copy, noted, disclaim(copy, { generation: 0, node: 'b' }, 'a'))?.generation ?? 0) > 3);
  assert.equal(takeBack(copy, noted, { lostNode: 'c' }), undefined);
  // However often the lost node has had it moved on.
  assert.ok((takeBack(copy, noted, { lostNode: 'b' })?.generation ?? 0) > 100_000);
});

test('a copy that its node has given up is not the same as one that an order makes the volume', () => {
  const mark: CopyMark = { generation: 2, fence: { moveId: 'm', fenceId: 'f', isGiven: true, to: 'b' } };
  const noted: Noted = { generation: 0, node: 'b' };
  const given = { ...noted, generation: disclaim(mark, noted, 'a') ?? assert.fail(), at: 'a' };
  assert.ok(hasGivenUp(2, given, 'a'));
  assert.ok(!hasGivenUp(2, given, 'c'));
  // It has come from there again since.
  assert.ok(!hasGivenUp(given.generation, given, 'a'));
  const draft = { moveId: 'm', readUnder: 'f', fenceId: 'f', generation: 2 };
  for (const before of [noted, given]) {
    const { generation } = finishDraft(draft, before, { lostNode: 'a' }) ?? assert.fail();
    assert.ok(!hasGivenUp(2, { ...noted, generation, at: 'a' }, 'a'));
  }
});

test('a copy that was handed over is an earlier one once its node has noted a later hand-over to another node', () => {
  const mark: CopyMark = { generation: 2, fence: { moveId: 'm', fenceId: 'f', isGiven: true, to: 'b' } };
  const is = (noted?: Noted) => isEarlier({ mark, why: 'given' }, noted);
  assert.ok(is({ generation: 5, at: 'b', node: 'a' }));
  for (const generation of [0, 2, 3]) assert.ok(!is({ generation, at: 'b', node: 'a' }));
  // The volume is here, or an order that takes it back was cut short.
  assert.ok(!is({ generation: 5, node: 'a' }));
  assert.ok(!is());
});

test('a copy that is nowhere else is later than all that a node can have which is named anyway', () => {
  for (const copy of [
    { generation: 2, fence: { moveId: 'm', fenceId: 'f', isGiven: true, by: 'a' } },
    { generation: 2 },
  ]) {
    const noted = { generation: 3, node: 'a' };
    assert.equal(takeBack(copy, noted)?.generation, 4);
    assert.ok((takeBack(copy, noted, { lostNode: 'c' })?.generation ?? 0) > 1_000_000);
    assert.ok((takeBack(copy, noted, { lostNode: 'c', laterThan: 5_000_000 })?.generation ?? 0) >= 6_000_000);
  }
});

describe('a copy that was handed over to another pool of its node', () => {
  const request = { moveId: 'm', fenceId: 'f' };
  const closed: CopyMark = { generation: 2, fence: { ...request, isGiven: false } };
  const handed = giveCopy(closed, { generation: 2, node: 'a' }, request) ?? assert.fail();

  test('may be on that node, seen from another one, and is taken back there by the word that it is lost', () => {
    assert.equal(whereElse(handed.mark, { generation: 3, node: 'a' }), undefined);
    for (const generation of [0, 2]) {
      const noted = { generation, node: 'b' };
      assert.equal(whereElse(handed.mark, noted), 'a');
      for (const word of [undefined, { lostNode: 'b' }]) assert.equal(takeBack(handed.mark, noted, word), undefined);
      assert.ok((takeBack(handed.mark, noted, { lostNode: 'a' })?.generation ?? 0) > 100_000);
    }
  });

  test('is the copy of its node under another name as long as that has its notes', () => {
    assert.equal(whereElse(handed.mark, { generation: 3, node: 'renamed' }), undefined);
    assert.equal(takeBack(handed.mark, { generation: 3, node: 'renamed' })?.generation, 4);
  });

  test('says which node has handed it over first, also if that hands it over again under another name', () => {
    const again = giveCopy(handed.mark, { generation: 3, node: 'renamed' }, request);
    assert.deepEqual(again, handed);
    const earlier: CopyMark = { generation: 2, fence: { ...request, isGiven: true } };
    assert.equal(whereElse(earlier, { generation: 0, node: 'b' }), undefined);
    assert.deepEqual(giveCopy(earlier, { generation: 3, node: 'a' }, request), handed);
  });

  test('names no node beside the one that it went to', () => {
    const to: CopyMark = { generation: 2, fence: { ...request, isGiven: false, to: 'c' } };
    const { fence } = giveCopy(to, { generation: 2, node: 'a' }, request)?.mark ?? {};
    assert.deepEqual(fence, { ...request, isGiven: true, to: 'c' });
  });
});

test('a node where the volume has been, and from where it has gone on, takes no hand-over back', () => {
  const copy: CopyMark = { generation: 2, fence: { moveId: 'm', fenceId: 'f', isGiven: true, to: 'b' } };
  const word = (noted: Omit<Noted, 'node'>) => disclaim(copy, { ...noted, node: 'b' }, 'a');
  assert.equal(word({ generation: 4, at: 'c' }), undefined);
  // It is in another pool of the node, or in the one that it came to.
  for (const generation of [3, 4]) assert.equal(word({ generation }), undefined);
  // A snapshot has the same bytes there.
  assert.equal(disclaim(copy, { generation: 3, node: 'b' }, 'a', 'snapshot'), 4);
  // It has said so before, or has handed over an earlier generation.
  assert.equal(word({ generation: 4, at: 'a' }), 4);
  for (const generation of [0, 1, 3]) assert.equal(word({ generation, at: 'c' }), 4);
});

test('a copy from another node is committed once: a disk that is as it was before that commits nothing', () => {
  const draft = { moveId: 'm', readUnder: 'f' };
  const commit = (noted: Omit<Noted, 'node'>, from?: string) =>
    commitDraft(draft, { ...noted, node: 'b' }, { moveId: 'm', fenceId: 'f', generation: 3 }, from)?.generation;
  assert.equal(commit({ generation: 3 }, 'a'), undefined);
  // Its driver was killed before the commit, or it has not begun.
  for (const noted of [{ generation: 3, at: 'a' }, { generation: 0 }, { generation: 2 }]) {
    assert.equal(commit(noted, 'a'), 3);
  }
  // Within a node that is the note of the hand-over.
  assert.equal(commit({ generation: 3 }), 3);
});

test('a node that has lost a pool gives up each copy that its disk can have, unless the volume has gone on to another node', () => {
  const left: CopyMark = { generation: 2, fence: { moveId: 'm', fenceId: 'f', isGiven: true, to: 'b' } };
  const word = (noted: Omit<Noted, 'node'>) => disclaimLost(left, { ...noted, node: 'b' }, 'a', 'pool');
  for (const [noted, lost] of [
    [{ generation: 0 }, 3],
    // It has lost its notes, too, and had moved the volume between its pools.
    [{ generation: 0 }, 9],
    [{ generation: 2, at: 'c' }, 3],
    // It has moved between pools of the node.
    [{ generation: 7 }, 7],
  ] as const) {
    const generation = word(noted) ?? assert.fail();
    const fence = { moveId: 'on', fenceId: 'f', isGiven: false };
    for (const to of ['a', 'c', undefined]) {
      const old: CopyMark = { generation: lost, fence: { ...fence, to } };
      const after: Noted = { generation, at: 'a', node: 'b' };
      assert.equal(whyUnusable({ generation: lost }, generation), 'old');
      assert.equal(giveCopy(old, after, { moveId: 'on', fenceId: 'f' }), undefined);
    }
    // The same word again.
    assert.equal(word({ generation, at: 'a' }), generation);
    const restored = takeBack(left, { generation: 3, at: 'b', node: 'a' }, { lostNode: 'b', disclaimed: generation });
    assert.ok((restored?.generation ?? 0) > 1_000_000);
    // The same by the word of a cancel.
    assert.ok((takeBack(left, { generation: 3, at: 'b', node: 'a' }, generation)?.generation ?? 0) >= generation);
  }
  assert.equal(word({ generation: 4, at: 'c' }), undefined);
  const late = takeBack(left, { generation: 3, at: 'b', node: 'a' }, { lostNode: 'b', disclaimed: 5_000_000 });
  assert.ok((late?.generation ?? 0) > 5_000_000);
});

test('a node that was installed again gives up what it may have had, however often that has moved there, and nothing that has gone on', () => {
  const given: CopyMark = { generation: 2, fence: { moveId: 'm', fenceId: 'f', isGiven: true, to: 'b' } };
  const word = (noted: Omit<Noted, 'node'>) => disclaimLost(given, { ...noted, node: 'b' }, 'a', 'node');
  for (const noted of [{ generation: 0 }, { generation: 2 }, { generation: 3, at: 'a' }]) {
    assert.ok((word(noted) ?? 0) > 100_000);
  }
  // It has a note of the arrival: it was not installed again.
  for (const noted of [{ generation: 3 }, { generation: 4 }, { generation: 4, at: 'c' }]) {
    assert.equal(word(noted), undefined);
  }
});

test('a node hands nothing over by a note that is not of that hand-over', () => {
  const copy: CopyMark = { generation: 2, fence: { moveId: 'm', fenceId: 'f', isGiven: false, to: 'c' } };
  const request = { moveId: 'm', fenceId: 'f' };
  assert.ok(giveCopy(copy, { generation: 3, at: 'c', node: 'b' }, request));
  // It was installed again, and has given the volume up since.
  assert.equal(giveCopy(copy, { generation: 3, at: 'a', node: 'b' }, request), undefined);
});

test('the word of a node that was installed again makes all copies that it may have moved on earlier ones, and is of one hand-over', () => {
  const copy: CopyMark = { generation: 5, fence: { moveId: 'm', fenceId: 'f', isGiven: true, to: 'b' } };
  const noted: Noted = { generation: 6, node: 'a', at: 'b' };
  const word = (disclaimed: number, lostNode = 'b') => takeBack(copy, noted, { lostNode, disclaimed })?.generation;
  assert.ok((word(7) ?? 0) > 1_000_000);
  assert.equal(word(6), undefined);
  assert.equal(word(7, 'c'), undefined);
});

test('a copy of which an old disk has forgotten the fence goes once the target has it, and no copy that is the volume', () => {
  const arrived = { moveId: 'm', generation: 3 };
  assert.ok(settlesCopy({ generation: 2 }, arrived, 3));
  for (const generation of [2, 1, 0]) assert.ok(!settlesCopy({ generation: 2 }, arrived, generation));
  assert.ok(!settlesCopy({ generation: 3 }, arrived, 4));
  const ofOther = { generation: 2, fence: { moveId: 'other', fenceId: 'f', isGiven: true } };
  assert.ok(!settlesCopy(ofOther, arrived, 3));
});

describe('a copy whose source is lost', () => {
  const whole = { moveId: 'm', readUnder: 'f', fenceId: 'f', generation: 3 };
  const lost = { lostNode: 'a' };

  test('becomes the volume if all of it was read under the fence of which the source has said its generation', () => {
    for (const readUnder of [undefined, 'e']) {
      assert.equal(finishDraft({ ...whole, readUnder }, { generation: 0, node: 'b' }, lost), undefined);
    }
    for (const generation of [0, 4]) {
      assert.deepEqual(finishDraft(whole, { generation, node: 'b' }, undefined), { generation: 5 });
    }
  });

  test('is later than all that a node can have made of it that comes back', () => {
    for (const generation of [0, 4]) {
      const mark = finishDraft(whole, { generation, node: 'b' }, lost) ?? assert.fail();
      assert.ok(mark.generation > 100_000);
      const again = finishDraft(whole, { generation: mark.generation, at: 'a', node: 'b' }, lost) ?? assert.fail();
      assert.ok(again.generation > mark.generation);
      const later = finishDraft(whole, { generation, node: 'b' }, { ...lost, laterThan: again.generation });
      assert.ok((later?.generation ?? 0) > again.generation);
      // The source may have taken its copy back by such a word, of which this node has not heard.
      const given = { generation: 3, fence: { moveId: 'm', fenceId: 'f', isGiven: true, to: 'b' } };
      const taken = takeBack(given, { generation: 4, at: 'b', node: 'a' }, { lostNode: 'b' }) ?? assert.fail();
      const last = finishDraft(whole, { generation, node: 'b' }, { ...lost, words: 1 });
      assert.ok((last?.generation ?? 0) > taken.generation);
    }
  });

  test('is later than all that a node can have which has given up the copies of a disk, and no late word counts', () => {
    for (const noted of [{ generation: 3 }, { generation: 4, at: 'b' }, { generation: 9 }]) {
      const disclaimed = disclaimLost({ generation: 3 }, { ...noted, node: 'a' }, 'b', 'pool') ?? assert.fail();
      const mark = finishDraft(whole, { generation: 0, node: 'b' }, { ...lost, disclaimed }) ?? assert.fail();
      assert.ok(mark.generation > disclaimed);
      // A move back to that node would be refused otherwise.
      const again = finishDraft(whole, { ...mark, at: 'a', node: 'b' }, { ...lost, disclaimed }) ?? assert.fail();
      assert.ok(again.generation > mark.generation);
    }
    for (const disclaimed of [3, 4]) {
      assert.equal(finishDraft(whole, { generation: 0, node: 'b' }, { ...lost, disclaimed }), undefined);
    }
  });

  test('is passed over if its source has noted a later one, but for the hand-over to the node that has the copy', () => {
    for (const [noted, isPast] of [
      [{ generation: 3 }, false],
      [{ generation: 2, at: 'c' }, false],
      [{ generation: 4, at: 'b' }, false],
      [{ generation: 1_000_004, at: 'b' }, false],
      [{ generation: 4 }, true],
      [{ generation: 4, at: 'c' }, true],
    ] as const) {
      assert.equal(isPassedOver(3, { ...noted, node: 'a' }, 'b'), isPast);
    }
  });

  test('does not within a node that has handed the volume over to another one since', () => {
    for (const generation of [4, 5]) {
      assert.equal(finishDraft(whole, { generation, at: 'c', node: 'b' }, undefined), undefined);
    }
    assert.ok(finishDraft(whole, { generation: 4, node: 'b' }, undefined));
  });

  test('does not where the volume has been, and has gone on', () => {
    for (const word of [lost, undefined]) {
      assert.equal(finishDraft(whole, { generation: 5, at: 'c', node: 'b' }, word), undefined);
    }
  });
});
