import type * as wire from '../csi/generated/types.ts';
import {
  parseCapability,
  parseCapacityRange,
  parseTopologyRequirement,
  type TopologyRequirement,
} from '../csi/parse.ts';
import { type Access, type AccessMode, accessModes } from '../volume/capability.ts';
import { type HoldfastError, InvalidArgument } from '../volume/errors.ts';
import type { VolumeSource } from '../volume/record.ts';
import { Secrets } from '../volume/secrets.ts';
import type { CapacityRange } from '../volume/size.ts';
import { requireSnapshotId, requireVolumeId } from './find.ts';
import { checkSegments } from './topology.ts';
import {
  parseMutableParameters,
  parseParameters,
  sortedParameters,
  type VolumeParameters,
} from './volumes/parameters.ts';

/** The requirements of a list of capabilities for one volume: it must satisfy all of them (A03). */
export interface Demand {
  /** Mount flags are left out: they are for the node, and must not be kept here (X02). */
  readonly access: Access;
  /** In the order of `accessModes`, each once. */
  readonly modes: readonly AccessMode[];
}

/** A well-formed CreateVolumeRequest. Later code decides if this node can fulfil it. */
export interface VolumeRequest {
  readonly name: string;
  readonly range: CapacityRange | undefined;
  readonly demand: Demand;
  /** The parameters after the mutable ones, which take precedence (CV13). */
  readonly parameters: VolumeParameters;
  /** The parameters, unchanged, sorted by key. */
  readonly allParameters: Readonly<Record<string, string>>;
  /** The mutable parameters, unchanged, sorted by key; undefined if there were none. */
  readonly mutableParameters: Readonly<Record<string, string>> | undefined;
  readonly source: VolumeSource | undefined;
  readonly topology: TopologyRequirement | undefined;
  readonly secrets: Secrets;
}

/** @throws InvalidArgument, NotFound for a source whose id cannot be one */
export function parseVolumeRequest(
  request: wire.CreateVolumeRequest,
  ownParameters: readonly string[] = [],
): VolumeRequest {
  const { mutable_parameters: mutableParameters } = request;
  // Each list must be valid, even parameters that are overridden.
  parseParameters(request.parameters, ownParameters);
  parseMutableParameters(mutableParameters);
  const topology = parseTopologyRequirement(request.accessibility_requirements);
  for (const segments of [...(topology?.requisite ?? []), ...(topology?.preferred ?? [])]) checkSegments(segments);
  return {
    name: request.name,
    range: parseCapacityRange(request.capacity_range),
    demand: parseDemand(request.volume_capabilities, (message) => new InvalidArgument(message)),
    parameters: parseParameters({ ...request.parameters, ...mutableParameters }, ownParameters),
    allParameters: sortedParameters(request.parameters),
    mutableParameters: Object.keys(mutableParameters).length === 0 ? undefined : sortedParameters(mutableParameters),
    source: parseSource(request.volume_content_source),
    topology,
    secrets: new Secrets(request.secrets),
  };
}

/** @throws InvalidArgument for a source without a type or an id (L14), NotFound for an id that cannot be one (CV22) */
function parseSource(source: wire.VolumeContentSource | null): VolumeSource | undefined {
  if (source === null) return undefined;
  const { snapshot, volume } = source;
  const text = snapshot?.snapshot_id ?? volume?.volume_id;
  if (text === undefined || text === '') {
    throw new InvalidArgument('volume_content_source needs the id of a snapshot or of a volume.');
  }
  return snapshot ? { type: 'snapshot', id: requireSnapshotId(text) } : { type: 'volume', id: requireVolumeId(text) };
}

/**
 * @param onUnsupported makes the error for a well-formed capability that is not supported
 * @throws InvalidArgument for a malformed capability (L13, L14)
 */
export function parseDemand(
  capabilities: readonly wire.VolumeCapability[],
  onUnsupported: (message: string) => HoldfastError,
): Demand {
  const parsed = capabilities.map((capability) => parseCapability(capability, onUnsupported));
  const modes = accessModes.filter((mode) => parsed.some((capability) => capability.mode === mode));
  if (parsed.every(({ access }) => access.type === 'block')) return { access: { type: 'block' }, modes };
  const fsTypes = new Set(parsed.map(({ access }) => (access.type === 'mount' ? access.fsType : access.type)));
  if (fsTypes.has('block')) {
    throw onUnsupported('One volume cannot be both block and mount: ask for two volumes.');
  }
  // A request without a filesystem is compatible with any (A06).
  const named = [...fsTypes].filter((fsType) => fsType !== undefined && fsType !== 'block');
  if (named.length > 1) {
    throw onUnsupported(`One volume cannot hold ${named.join(' and ')}: ask for one filesystem.`);
  }
  return { access: { type: 'mount', fsType: named[0], mountFlags: [] }, modes };
}
