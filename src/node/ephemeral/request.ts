import type * as wire from '../../csi/generated/types.ts';
import type { FoundVolume } from '../../pool/pools.ts';
import { mismatch } from '../../volume/capability.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { type FilesystemType, isServed } from '../../volume/filesystem.ts';
import { ephemeralIdFor, parseVolumeId, type VolumeId } from '../../volume/id.ts';
import type { Notes } from '../notes.ts';
import { parseTargetPath, type TargetPath } from '../path/target.ts';
import { type Demand, parseDemand } from '../request.ts';
import { type EphemeralAttributes, keptParameters, parseEphemeralAttributes, sameAttributes } from './attributes.ts';

/** A NodePublishVolume that makes its volume itself. */
export interface EphemeralRequest {
  readonly volumeId: VolumeId;
  /** The volume_id that the caller gave it. */
  readonly handle: string;
  readonly target: TargetPath;
  readonly demand: Demand;
  readonly isReadonly: boolean;
  readonly attributes: EphemeralAttributes;
  /** undefined: as the pool has it. */
  readonly fsType: FilesystemType | undefined;
  /** The part of the volume_context that the record keeps. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** @throws InvalidArgument, FailedPrecondition (A04) */
export function parseEphemeralRequest(
  request: wire.NodePublishVolumeRequest,
  nodeId: string,
  roots: readonly string[],
): EphemeralRequest {
  const { volume_context: context, volume_id: handle } = request;
  const target = parseTargetPath('target_path', request.target_path, roots);
  const demand = parseDemand(request.volume_capability);
  if (parseVolumeId(handle) !== undefined) {
    throw new InvalidArgument(
      'volume_id is that of a volume that is not ephemeral: it cannot be used as an inline volume.',
    );
  }
  const attributes = parseEphemeralAttributes(context);
  return {
    volumeId: ephemeralIdFor(nodeId, handle),
    handle,
    target,
    demand,
    isReadonly: request.readonly || demand.isReadonly,
    attributes,
    fsType: filesystemOf(demand, attributes),
    parameters: keptParameters(context),
  };
}

function filesystemOf({ capability }: Demand, { fsType }: EphemeralAttributes): FilesystemType | undefined {
  const { access } = capability;
  if (access.type === 'block') throw new InvalidArgument('An ephemeral volume has a filesystem: it cannot be block.');
  if (fsType !== undefined && access.fsType !== undefined && fsType !== access.fsType) {
    throw new InvalidArgument(
      `Volume attribute fsType is ${fsType}, and fsType beside it is ${access.fsType}: leave one of them out.`,
    );
  }
  if (isServed(access.fsType)) {
    throw new InvalidArgument(`An ephemeral volume has a filesystem, so it cannot be ${access.fsType}.`);
  }
  return fsType ?? access.fsType;
}

/** True if the existing volume was requested in the same way (PB07). */
export function isSameRequest({ pool, record }: FoundVolume, request: EphemeralRequest, notes: Notes): boolean {
  const { attributes, demand, parameters } = request;
  return (
    sameAttributes(record.parameters, parameters) &&
    (attributes.poolName === undefined || attributes.poolName === pool.name) &&
    mismatch(record.content, demand.capability.access) === undefined &&
    record.ephemeral?.digest === notes.digest(demand.capability, record.content)
  );
}
