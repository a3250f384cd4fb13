import { Unavailable } from '../../volume/errors.ts';
import type { RecordedVolume } from '../kubernetes/persistent-volumes.ts';
import type { RecordsOfVolumes } from '../kubernetes/volume-records.ts';
import { isNamed, OwnerInDoubt, SeveralOwners } from '../routing/owner.ts';
import type { RecordedNode } from '../routing/view.ts';
import type { FleetMoves } from './fleet-moves.ts';
import type { FleetState } from './fleet-state.ts';

/** The word of nodes about moves. */
export type MovesTold = Pick<FleetMoves, 'gaveUp' | 'movedTo' | 'wentTo'>;

interface Recorded {
  readonly state: FleetState;
  readonly records: RecordsOfVolumes;
  readonly moves: MovesTold;
}

/**
 * Routes a call. A volume that has moved is on another node than the one that made it: while any node is away, or where that one has it, too,
 * as its disks were put back, the PersistentVolumes say where it is, which only a person or the controller's own programs may change.
 * They are listed for all volumes at once, and count for half a minute; a call is refused only by a list that was made for it.
 * A snapshot has none: the node that made it says where it went, as its id shows that node.
 * @param route looks at the state at once, with nothing awaited: it is called again after each question to Kubernetes
 * @throws what `route` throws, Unavailable in the moment in which the volume moves
 */
export async function routeRecorded<T>(recorded: Recorded, route: () => T): Promise<T> {
  const { moves, records, state } = recorded;
  /** By id: whether that list was made for this call. */
  const asked = new Map<string, 'lately' | 'now'>();
  for (;;) {
    try {
      return route();
    } catch (error) {
      if (!(error instanceof OwnerInDoubt || error instanceof SeveralOwners)) throw error;
      const { id, owners } = error;
      const before = asked.get(id);
      if (before === 'now') throw error;
      // The volume of a snapshot is what its node says.
      if (!owners.some(({ isVolume }) => isVolume)) {
        asked.set(id, 'now');
        const node = await lastNodeOf(recorded, error);
        if (node === undefined) throw error;
        state.noteRecorded(id, [node]);
        continue;
      }
      const kind = before === undefined ? 'lately' : 'now';
      asked.set(id, kind);
      const found = kind === 'lately' ? await records.lately(id) : await records.of(id);
      const nodes = recordedNodes(moves, id, found);
      const moving = whyMoving(error, moves, nodes);
      if (moving === undefined) state.noteRecorded(id, nodes);
      else if (kind === 'now') throw moving;
    }
  }
}

/** The nodes of its PersistentVolumes, but for one that it did not move to in the end: they are changed before the volume moves. */
export function recordedNodes(
  moves: Pick<MovesTold, 'gaveUp'>,
  volumeId: string,
  found: readonly RecordedVolume[],
): RecordedNode[] {
  return found.map(({ node }) => node).filter((node) => node === undefined || !moves.gaveUp(volumeId, node));
}

/** Nodes report what they have within seconds. After that the PersistentVolumes decide. */
const momentMs = 5 * 60_000;

/** The node that a volume leaves reports it a moment longer than the move takes. */
function whyMoving(
  { id, owners }: OwnerInDoubt | SeveralOwners,
  moves: MovesTold,
  recorded: readonly RecordedNode[],
): Unavailable | undefined {
  const nodes = owners.map(({ node }) => node);
  const named = nodes.filter((node) => isNamed(node, recorded));
  for (const from of named.length > 0 ? named : nodes) {
    const to = moves.movedTo(id, from, momentMs);
    if (to !== undefined && to !== from && nodes.includes(to)) {
      return new Unavailable(`${id} has just moved from ${from} to ${to}; try again.`);
    }
  }
  return undefined;
}

/**
 * Follows an object from the node that made it, which its id shows, from one node to the next.
 * @returns the node where it has arrived; undefined: that is not certain
 */
async function lastNodeOf(
  { moves, state }: Recorded,
  { id, owners }: OwnerInDoubt | SeveralOwners,
): Promise<string | undefined> {
  const [owner] = owners;
  const passed = new Set<string>();
  let node = owner === undefined ? undefined : state.originOf(owner, id);
  while (node !== undefined && !passed.has(node) && state.node(node)?.isLinked === true) {
    passed.add(node);
    let next: string | undefined;
    try {
      next = await moves.wentTo(id, node);
    } catch {
      return undefined;
    }
    if (next === undefined) return owners.some((each) => each.node === node) ? node : undefined;
    node = next;
  }
  return undefined;
}
