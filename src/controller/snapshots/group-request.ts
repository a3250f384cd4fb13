import type * as wire from '../../csi/generated/types.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import { requireVolumeId } from '../find.ts';
import { checkSnapshotParameters } from '../volumes/parameters.ts';

/** A well-formed CreateVolumeGroupSnapshotRequest. */
export interface GroupRequest {
  readonly name: string;
  /** A sorted set: the order in the request has no meaning (GR05). */
  readonly sourceIds: readonly VolumeId[];
  readonly parameters: Readonly<Record<string, string>>;
}

/** @throws InvalidArgument (GR03, GR04), NotFound for an id that cannot be one */
export function parseGroupRequest(request: wire.CreateVolumeGroupSnapshotRequest): GroupRequest {
  const { name, parameters, source_volume_ids: texts } = request;
  checkSnapshotParameters(parameters);
  if (texts.includes('')) throw new InvalidArgument('source_volume_ids has an empty id.');
  const seen = new Set<string>();
  // The first duplicate, found in one pass, as the list can be long.
  const twice = texts.find((text) => seen.size === seen.add(text).size);
  if (twice !== undefined) throw new InvalidArgument(`source_volume_ids has ${JSON.stringify(twice)} twice.`);
  return { name, sourceIds: texts.map(requireVolumeId).sort(), parameters };
}
