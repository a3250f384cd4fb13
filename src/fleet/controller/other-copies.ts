import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { parseSnapshotId } from '../../volume/id.ts';
import { describe, untold } from '../routing/missing.ts';
import type { ToldMove } from './fleet-moves.ts';
import type { FleetState } from './fleet-state.ts';

/** The copy that an order makes the volume. */
export interface WishedCopy {
  readonly volumeId: string;
  readonly node: string;
  /** The other node that had the volume, or may have had it; undefined: a pool of `node`. */
  readonly otherNode?: string | undefined;
  /** True: that node never comes back, an operator says. False: it says that it has given the volume up. */
  readonly isOtherLost?: boolean;
}

/** The facts about a volume besides the state of the fleet. */
export interface VolumeFacts {
  /** Moves of the volume, as nodes report them. */
  readonly moves: readonly ToldMove[];
  /** The nodes that its PersistentVolumes name. */
  readonly recordedOn: readonly string[];
  /** The nodes among them that have handed the wished copy over, as they have noted: the PersistentVolume is behind. */
  readonly before?: readonly string[];
  /** The nodes among them that have nothing of the volume, nor a note of it: an operator can say that their PersistentVolume is wrong. */
  readonly without?: readonly string[];
}

/**
 * Checks that no other node has the volume, or may have it, before a copy becomes the volume again that was handed over or left. A
 * disk may have been put into any other node. So all nodes are there, but one that is lost, and it gets no link any more.
 * @throws FailedPrecondition, Unavailable
 */
export function requireNoOther(
  state: FleetState,
  { isOtherLost = false, node, otherNode, volumeId }: WishedCopy,
  { before = [], moves, recordedOn, without = [] }: VolumeFacts,
): void {
  if (isOtherLost && otherNode !== undefined) requireLost(state, otherNode);
  requireOnlyAt(state, volumeId, [node]);
  const ends = [node, otherNode];
  const from = otherNode === undefined ? '' : ` from node ${otherNode}`;
  if (!state.areNodesKnown) {
    throw new Unavailable(
      `volume ${volumeId} may have moved on${from} to another node, and Kubernetes has not said yet which nodes there are.`,
    );
  }
  const missing = untold(state);
  if (missing.length > 0) {
    throw new Unavailable(
      `volume ${volumeId} may have moved on${from} to another node, by its disk too: no node that is there has it, and ${describe(missing)}. Try again when all are there; kubectl holdfast forget-node NODE, if one never comes back.`,
    );
  }
  // One that has nothing of the volume may have lost the disk with it.
  const recorded = recordedOn.find((name) => ![...ends, ...before, ...without].includes(name));
  if (recorded !== undefined) {
    const why =
      state.node(recorded) === undefined
        ? `before node ${recorded} is forgotten: kubectl holdfast forget-node ${recorded}`
        : `while node ${recorded} has a copy of the volume or a note of it, or does not say that it has none`;
    throw new FailedPrecondition(
      `${whyMayBeOn(state, { volumeId, node }, recorded)} --even-so does not pass over that ${why}.`,
    );
  }
  const others = moves.filter((told) => !ends.includes(told.node));
  const whole = others.find(({ move }) => isWhole(move));
  if (whole !== undefined) throw waitsWhole(volumeId, whole);
  // One that is away has not said how its move has gone on.
  const coming = others.find(({ move }) => move.state === 'running');
  if (coming !== undefined) {
    throw new FailedPrecondition(`volume ${volumeId} moves to node ${coming.node}: cancel that first.`);
  }
}

/** The reason against a copy if a PersistentVolume of its volume names a node that has not handed this copy over. */
export function whyMayBeOn(
  state: Pick<FleetState, 'node'>,
  { node, volumeId }: Pick<WishedCopy, 'node' | 'volumeId'>,
  recorded: string,
): string {
  const why =
    state.node(recorded) === undefined
      ? 'is not there'
      : `does not say that it has handed over the copy on node ${node}`;
  return `volume ${volumeId} may be on node ${recorded}, which its PersistentVolume names, and which ${why}. If a node has the volume, and the PersistentVolume is wrong: kubectl holdfast move --resume CLAIM makes it say where the volume is. It is wrong, too, if no node has it, nor any disk of node ${recorded}.`;
}

/** True if all of a copy has come that is not the volume yet, and can become it without its source. */
function isWhole({ asOf, copyOf, state }: ToldMove['move']): boolean {
  return (state === 'running' || state === 'failed') && (asOf !== undefined || copyOf !== undefined);
}

function waitsWhole(volumeId: string, { node, move: { from, fromNode } }: ToldMove): FailedPrecondition {
  const lost = fromNode === undefined ? '' : `--node-is-lost ${fromNode}, or `;
  return new FailedPrecondition(
    `all of a copy of volume ${volumeId} waits on node ${node}, which may be a later one: kubectl holdfast move finish ${volumeId} --node ${node} ${lost}--pool-is-lost ${from} makes that the volume; kubectl holdfast move cancel ${volumeId} --node ${node} --even-so removes it.`,
  );
}

/** @throws FailedPrecondition, Unavailable unless that node is forgotten, and gets no link any more */
export function requireLost(state: FleetState, lostNode: string): void {
  if (state.isForgotten(lostNode)) return;
  throw state.wasForgotten(lostNode)
    ? new Unavailable(`Node ${lostNode} was forgotten just now: try again in half a minute.`)
    : new FailedPrecondition(
        `Node ${lostNode} is not known to be lost: kubectl holdfast forget-node ${lostNode} comes first.`,
      );
}

/**
 * Checks that no node is known to have the volume, or snapshot, but these: their copies are earlier ones then. That is enough for an order
 * that makes no copy the volume which was not the volume before, and for a snapshot, all copies of which have the same bytes.
 * @throws FailedPrecondition, Unavailable while a node has not said yet whether its copy is an earlier one
 */
export function requireOnlyAt(
  state: Pick<FleetState, 'doubted' | 'owners'>,
  id: string,
  nodes: readonly string[],
): void {
  const what = `${parseSnapshotId(id) === undefined ? 'volume' : 'snapshot'} ${id}`;
  const other = state.owners(id).find(({ node }) => !nodes.includes(node));
  if (other !== undefined) {
    const copies = nodes.map((node) => `node ${node}`).join(' or ');
    throw new FailedPrecondition(`${what} is on node ${other.node} by now, so a copy on ${copies} must not be used.`);
  }
  const doubted = state.doubted(id).find((node) => !nodes.includes(node));
  if (doubted === undefined) return;
  throw new Unavailable(
    `Node ${doubted} has a copy of ${what}, and has not said yet whether that is an earlier one: try again, once it is there and all its pools are open.`,
  );
}
