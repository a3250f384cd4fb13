import type { Moving } from '../../admin/protocol.ts';
import type { ChangedFleet } from '../../fleet/view/start.ts';
import type { CopySight } from '../../move/peers.ts';
import { FailedPrecondition, HoldfastError } from '../../volume/errors.ts';
import { recordedOn, takeBack } from './taking-back.ts';

interface TwoCopies {
  readonly volumeId: string;
  /** The node whose copy goes. */
  readonly node: string;
  /** The node whose copy stays: the PersistentVolume names it. */
  readonly kept: string;
}

/**
 * Ends a state in which two nodes have a copy of a volume that can be used: all disks of one of them were put back. The one that the
 * PersistentVolume does not name goes to the trash, and is noted as an earlier one, so that it stays one if its disks are put back once more.
 * @returns undefined if there are no two
 * @throws FailedPrecondition, also without the second word; Unavailable
 */
export async function endTwoCopies(
  fleet: ChangedFleet,
  { id: volumeId, node }: { readonly id: string; readonly node: string },
  isEvenSo: boolean,
): Promise<Moving | undefined> {
  const { moves, state } = fleet;
  const ends = moves.endsOf(volumeId, node);
  // The two ends of a move both report the volume for a moment.
  const others = state
    .owners(volumeId)
    .map((owner) => owner.node)
    .filter((name) => !ends.includes(name));
  if (others.length === 0) return undefined;
  // A driver that is older does not say it.
  const copy = await moves.copyAt(node, volumeId).catch(() => undefined);
  if (copy?.isVolume !== true) return undefined;
  const kept = keptOf(volumeId, node, others, await recordedOn(fleet, volumeId));
  const two = { volumeId, node, kept };
  const later = await moves.copyAt(kept, volumeId);
  requireLater(two, copy, later);
  if (!isEvenSo) throw twoCopies(two);
  const { createdAt, generation } = later;
  await takeBack(fleet, { volumeId, node: kept, lostNode: node, generation, createdAt }, ({ at }) =>
    moves.outdate(node, { volumeId, generation, node: kept, takenBackAt: at, createdAt }).catch((error: unknown) => {
      throw error instanceof HoldfastError && error.code === 'FAILED_PRECONDITION' ? stillUsed(two, error) : error;
    }),
  );
  const at = new Date().toISOString();
  return {
    id: volumeId,
    from: '',
    to: '',
    toNode: kept,
    state: 'cancelled',
    startedAt: at,
    endedAt: at,
    isSetAside: true,
  };
}

/** The PersistentVolume, which no node writes, says which copy counts. */
function keptOf(volumeId: string, node: string, others: readonly string[], recorded: readonly string[]): string {
  if (recorded.includes(node)) {
    throw new FailedPrecondition(
      `volume ${volumeId} is on node ${node}, and on node ${others.join(' and ')}: its PersistentVolume names node ${node}, so that copy is not set aside. Give the other node, or first make a PersistentVolume that names it.`,
    );
  }
  const kept = others.find((name) => recorded.includes(name));
  if (kept !== undefined) return kept;
  throw new FailedPrecondition(
    `volume ${volumeId} is on node ${node}, and on node ${others.join(' and ')}, and no PersistentVolume names one of them: first make one that names the node whose copy counts.`,
  );
}

/** @throws FailedPrecondition unless the copy that stays is one of the same volume, and has moved more often: the other one would count as the later one. */
function requireLater({ kept, node, volumeId }: TwoCopies, copy: CopySight, later: CopySight): void {
  const both = `volume ${volumeId} is on node ${node}, and on node ${kept}, which its PersistentVolume names`;
  if (!later.isVolume) {
    throw new FailedPrecondition(
      `${both}: but the copy there cannot be used just now. Nothing was changed. If it is moving, end that first. If that is refused, as node ${node} has the volume: take the pool with the copy on node ${node} out of the configuration there, and restart that driver.`,
    );
  }
  if (copy.createdAt !== undefined && later.createdAt !== undefined && copy.createdAt !== later.createdAt) {
    throw new FailedPrecondition(
      `${both}: these are two volumes of one name, made at ${copy.createdAt} and at ${later.createdAt}. Nothing was changed.`,
    );
  }
  if (later.generation > copy.generation) return;
  throw new FailedPrecondition(
    `${both}: but that copy has not moved more often than the one on node ${node}, which nodes would take for the later one. Nothing was changed. Move the copy that counts on (kubectl holdfast move), until it has.`,
  );
}

function twoCopies({ kept, node, volumeId }: TwoCopies): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${volumeId} is on node ${node}, and on node ${kept}, which its PersistentVolume names: both can be used, as disks of one of them were put back. Look at both. kubectl holdfast move cancel ${volumeId} --node ${node} --even-so puts the copy on node ${node} into the trash there.`,
  );
}

function stillUsed({ kept, node, volumeId }: TwoCopies, { message }: HoldfastError): FailedPrecondition {
  return new FailedPrecondition(
    `${message} The copy of volume ${volumeId} on node ${node} counts as an earlier one than that on node ${kept} from now on: it goes to the trash once it is not in use.`,
  );
}
