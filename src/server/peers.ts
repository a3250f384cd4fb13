import type { ServeConfig } from '../config/config.ts';
import type { NodeMoves } from '../fleet/node/moves.ts';
import { MoveJobs } from '../move/job.ts';
import type { LeavingsOptions } from '../move/nodes/leavings.ts';
import type { SnapshotLeavingsOptions } from '../move/nodes/snapshot-leavings.ts';
import type { VolumeId } from '../volume/id.ts';

export interface NodePeers extends Omit<NodeMoves, 'address' | 'mover'> {
  /** undefined: no other node reaches this one. Volumes may be fenced for earlier moves. */
  readonly address: string | undefined;
}

/**
 * The other nodes that volumes move to and from. Without an address none of its code is loaded, unless a move was running when there
 * was one: its fence has to end, and is reported.
 */
export async function peersOf(
  { link, movesSnapshots, side }: Pick<ServeConfig, 'link' | 'movesSnapshots' | 'side'>,
  shared: Omit<LeavingsOptions, 'isMovingHere'>,
  { areComing, isMovingHere }: Pick<LeavingsOptions, 'isMovingHere'> & Pick<SnapshotLeavingsOptions, 'areComing'>,
): Promise<NodePeers | undefined> {
  const listen = link?.moveAddress;
  if (listen === undefined && (side !== undefined || !(await hasLeavings(shared)))) return undefined;
  const [{ Leavings }, { SnapshotLeavings }, { Nodes }] = await Promise.all([
    import('../move/nodes/leavings.ts'),
    import('../move/nodes/snapshot-leavings.ts'),
    import('../move/nodes/nodes.ts'),
  ]);
  const { log, objects } = shared;
  const leavings = new Leavings({ ...shared, isMovingHere });
  const isLeaving = (id: VolumeId, moveId: string) => leavings.isRunning(id, moveId);
  const snapshotLeavings = new SnapshotLeavings({ ...shared, movesSnapshots, areComing, isLeaving });
  // Nothing listens before the controller has made a certificate, which it does for an address.
  const parts = { leavings, snapshotLeavings, objects, log };
  const nodes = new Nodes({ ...parts, listen: listen ?? { host: undefined, port: 0 } });
  return { leavings, snapshotLeavings, nodes, address: listen && addressOf(listen) };
}

function addressOf({ host = '', port }: { readonly host?: string | undefined; readonly port: number }): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** True if a move to another node has not ended, or that is not known. */
async function hasLeavings({ dataDirectory, queue }: Omit<LeavingsOptions, 'isMovingHere'>): Promise<boolean> {
  try {
    const { jobs, problems } = await new MoveJobs(dataDirectory, queue, 'leaving').read();
    return problems.length > 0 || jobs.some(({ state }) => state === 'running');
  } catch {
    return true;
  }
}
