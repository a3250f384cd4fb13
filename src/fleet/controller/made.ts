import { decode, type Method } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import { InternalError } from '../../volume/errors.ts';
import { topologyKey } from '../../volume/topology.ts';
import { isNamed, ownerOf } from '../routing/owner.ts';
import type { FleetView } from '../routing/view.ts';

/*
 * Checks the answers of nodes that make something. Kubernetes records an answer, and relies on it from then on: a node
 * that was taken over must not get another node's volume recorded for one of its claims.
 */

/** An answer of a node that may be false. */
export interface Made {
  readonly node: string;
  readonly method: Method;
  readonly request: Buffer;
  readonly response: Buffer;
}

/** @throws InternalError if the answer names an object of another node, or not the requested one */
export function requireOwn(view: FleetView, { method, node, request, response }: Made): void {
  switch (method.name) {
    case 'CreateVolume': {
      const { volume } = decode<wire.CreateVolumeResponse>(method.responseType, response);
      requireOn(view, node, volume?.volume_id ?? '');
      requireThere(node, volume?.accessible_topology ?? []);
      return;
    }
    case 'CreateSnapshot': {
      const asked = decode<wire.CreateSnapshotRequest>(method.requestType, request);
      const { snapshot } = decode<wire.CreateSnapshotResponse>(method.responseType, response);
      requireSnapshots(view, node, snapshot === null ? [] : [snapshot], [asked.source_volume_id]);
      return;
    }
    case 'CreateVolumeGroupSnapshot': {
      const asked = decode<wire.CreateVolumeGroupSnapshotRequest>(method.requestType, request);
      const { group_snapshot: group } = decode<wire.CreateVolumeGroupSnapshotResponse>(method.responseType, response);
      requireOn(view, node, group?.group_snapshot_id ?? '');
      requireSnapshots(view, node, group?.snapshots ?? [], asked.source_volume_ids);
      return;
    }
  }
}

/** A node reports an object before it answers. @throws InternalError */
export function requireOn(view: FleetView, node: string, id: string): void {
  const owners = view.owners(id);
  const own = owners.find((owner) => owner.node === node);
  // Its id says so, or a record.
  if (own?.isNative === true || (own !== undefined && isNamed(node, view.recorded(id)))) return;
  const isMadeElsewhere = owners.some(({ isNative }) => isNative);
  if (own !== undefined && !isMadeElsewhere && ownerOf(view, id)?.name === node) return;
  if (owners.length === 0 && view.isTelling(node, id)) return;
  throw refused(node, `${JSON.stringify(id.slice(0, 64))}, which it does not have`);
}

function requireSnapshots(
  view: FleetView,
  node: string,
  snapshots: readonly Pick<wire.Snapshot, 'snapshot_id' | 'source_volume_id'>[],
  sourceIds: readonly string[],
): void {
  for (const { snapshot_id, source_volume_id } of snapshots) {
    requireOn(view, node, snapshot_id);
    if (!sourceIds.includes(source_volume_id)) throw refused(node, `a snapshot of another volume than requested`);
  }
}

function requireThere(node: string, topologies: readonly Pick<wire.Topology, 'segments'>[]): void {
  const [only] = topologies;
  if (topologies.length === 1 && only?.segments[topologyKey] === node) return;
  throw refused(node, 'a volume that belongs on another node');
}

function refused(node: string, what: string): InternalError {
  return new InternalError(`Node ${node} answered with ${what}. Nothing is recorded; look at that node.`);
}
