import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { describe, untold } from '../routing/missing.ts';
import type { ToldMove } from './fleet-moves.ts';
import type { FleetState } from './fleet-state.ts';

/** The copy that will be the volume. */
export interface WishedCopy {
  readonly volumeId: string;
  readonly node: string;
  /** The node that has the volume, or may have it, and never comes back. */
  readonly lostNode: string;
}

/** The facts about a volume besides the state of the fleet. */
export interface VolumeFacts {
  /** Moves of the volume, as nodes report them. */
  readonly moves: readonly ToldMove[];
  /** The nodes that its PersistentVolumes name. */
  readonly recordedOn: readonly string[];
}

/**
 * Checks what an operator says with `--node-is-lost`: the copy on the lost node counts for nothing from then on, and the one
 * on `node` becomes the volume. So the lost node gets no link any more, and the volume has not gone on from it to a third one.
 * @throws FailedPrecondition, Unavailable
 */
export function requireLost(
  state: FleetState,
  { lostNode, node, volumeId }: WishedCopy,
  { moves, recordedOn }: VolumeFacts,
): void {
  if (!state.isForgotten(lostNode)) {
    throw state.wasForgotten(lostNode)
      ? new Unavailable(`Node ${lostNode} was forgotten just now: try again in half a minute.`)
      : new FailedPrecondition(
          `Node ${lostNode} is not known to be lost: kubectl holdfast forget-node ${lostNode} comes first.`,
        );
  }
  requireNowhereElse(state, { lostNode, node, volumeId }, { moves, recordedOn });
}

/**
 * Checks that a volume is on no third node, if it is not on `lostNode` any more.
 * @throws FailedPrecondition, Unavailable
 */
export function requireNowhereElse(
  state: FleetState,
  { lostNode, node, volumeId }: WishedCopy,
  { moves, recordedOn }: VolumeFacts,
): void {
  requireOnlyAt(state, volumeId, [node]);
  const recorded = recordedOn.find((name) => name !== node && name !== lostNode);
  if (recorded !== undefined) {
    throw new FailedPrecondition(`volume ${volumeId} is on node ${recorded}, as its PersistentVolume says.`);
  }
  const coming = moves.find((told) => told.node !== node && told.move.state === 'running');
  if (coming !== undefined) {
    throw new FailedPrecondition(`volume ${volumeId} moves to node ${coming.node}: cancel that first.`);
  }
  const missing = untold(state);
  if (missing.length === 0 && state.areNodesKnown) return;
  const why = missing.length === 0 ? 'Kubernetes has not said yet which nodes there are' : describe(missing);
  throw new Unavailable(`volume ${volumeId} may have moved on from node ${lostNode} to another one, and ${why}.`);
}

/**
 * Checks that no node has the volume but these: their copies are earlier ones then.
 * @throws FailedPrecondition, Unavailable while a node has not said yet whether its copy is an earlier one
 */
export function requireOnlyAt(
  state: Pick<FleetState, 'doubted' | 'owners'>,
  volumeId: string,
  nodes: readonly string[],
): void {
  const other = state.owners(volumeId).find(({ node }) => !nodes.includes(node));
  if (other !== undefined) {
    const copies = nodes.map((node) => `node ${node}`).join(' or ');
    throw new FailedPrecondition(
      `volume ${volumeId} is on node ${other.node} by now, so a copy on ${copies} must not be used.`,
    );
  }
  const doubted = state.doubted(volumeId).find((node) => !nodes.includes(node));
  if (doubted === undefined) return;
  throw new Unavailable(
    `Node ${doubted} has a copy of volume ${volumeId}, and has not said yet whether that is an earlier one: try again, once it is there and all its pools are open.`,
  );
}
