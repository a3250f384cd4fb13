import { InvalidArgument } from '../volume/errors.ts';
import type {
  ControllerMethods,
  GroupControllerMethods,
  IdentityMethods,
  NodeMethods,
  SnapshotMetadataMethods,
} from './generated/types.ts';

type Methods = IdentityMethods & ControllerMethods & GroupControllerMethods & SnapshotMetadataMethods & NodeMethods;

/**
 * The fields that a request must have, in the order in which they are checked. Scalars whose zero is a legal value
 * (`readonly`, `starting_offset`) cannot be missing (L10). Two fields that CSI calls required are not here, because
 * another answer than INVALID_ARGUMENT comes first:
 * - NodePublishVolume's staging_target_path: without it the answer is FAILED_PRECONDITION (PB13);
 * - the snapshot_ids of groups: they count once the group is known to exist (GR15, GR20).
 */
const requiredFields: { readonly [K in keyof Methods]?: readonly (keyof Methods[K]['request'])[] } = {
  CreateVolume: ['name', 'volume_capabilities'],
  DeleteVolume: ['volume_id'],
  ControllerPublishVolume: ['volume_id', 'node_id', 'volume_capability'],
  ControllerUnpublishVolume: ['volume_id'],
  ValidateVolumeCapabilities: ['volume_id', 'volume_capabilities'],
  ControllerGetVolume: ['volume_id'],
  ControllerModifyVolume: ['volume_id', 'mutable_parameters'],
  ControllerExpandVolume: ['volume_id', 'capacity_range'],
  CreateSnapshot: ['source_volume_id', 'name'],
  DeleteSnapshot: ['snapshot_id'],
  GetSnapshot: ['snapshot_id'],
  CreateVolumeGroupSnapshot: ['name', 'source_volume_ids'],
  DeleteVolumeGroupSnapshot: ['group_snapshot_id'],
  GetVolumeGroupSnapshot: ['group_snapshot_id'],
  GetMetadataAllocated: ['snapshot_id'],
  GetMetadataDelta: ['base_snapshot_id', 'target_snapshot_id'],
  NodeStageVolume: ['volume_id', 'staging_target_path', 'volume_capability'],
  NodeUnstageVolume: ['volume_id', 'staging_target_path'],
  NodePublishVolume: ['volume_id', 'target_path', 'volume_capability'],
  NodeUnpublishVolume: ['volume_id', 'target_path'],
  NodeGetVolumeStats: ['volume_id', 'volume_path'],
  NodeExpandVolume: ['volume_id', 'volume_path'],
};

const byName: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(requiredFields));

/** @throws InvalidArgument if a required field is missing (E02, L09) */
export function checkRequired(rpc: string, request: object): void {
  const values: Readonly<Record<string, unknown>> = { ...request };
  const missing = byName.get(rpc)?.find((field) => isMissing(values[field]));
  if (missing !== undefined) throw new InvalidArgument(`${rpc} needs ${missing}.`);
}

/** A list or a map without elements counts as missing (L09). A message that was read has keys, so it never does. */
function isMissing(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}
