import { decode, type Method } from '../../csi/contract.ts';
import type * as wire from '../../csi/generated/types.ts';
import { InternalError } from '../../volume/errors.ts';
import { topologyKey } from '../../volume/topology.ts';
import { ownerOf } from '../routing/owner.ts';
import type { FleetView } from '../routing/view.ts';

/*
 * What a node answers that was asked to make something. Kubernetes records it, and believes it from then on: a node that
 * was taken over must not get another node's volume recorded for a claim of its own.
 */

/** What a node that answers may be lying about. */
export interface Made {
  readonly node: string;
  readonly method: Method;
  readonly request: Buffer;
  readonly response: Buffer;
}

/** @throws InternalError if the node has answered with what is not its own, or not what it was asked for */
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

/** It has told what it has made before it answers. @throws InternalError */
export function requireOn(view: FleetView, node: string, id: string): void {
  const owners = view.owners(id);
  if (owners.some((owner) => owner.node === node) && ownerOf(view, id)?.name === node) return;
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
    if (!sourceIds.includes(source_volume_id)) throw refused(node, `a snapshot of a volume that was not asked for`);
  }
}

function requireThere(node: string, topologies: readonly Pick<wire.Topology, 'segments'>[]): void {
  const [only] = topologies;
  if (topologies.length === 1 && only?.segments[topologyKey] === node) return;
  throw refused(node, 'a volume that is to lie elsewhere');
}

function refused(node: string, what: string): InternalError {
  return new InternalError(`Node ${node} answered with ${what}. Nothing is recorded; look at that node.`);
}
