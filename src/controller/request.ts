import type * as wire from '../csi/generated/types.ts';
import {
  parseCapability,
  parseCapacityRange,
  parseTopologyRequirement,
  type TopologyRequirement,
} from '../csi/parse.ts';
import { type Access, type AccessMode, accessModes } from '../volume/capability.ts';
import { type HoldfastError, InvalidArgument } from '../volume/errors.ts';
import type { CapacityRange } from '../volume/size.ts';
import { parseParameters, sortedParameters, type VolumeParameters } from './parameters.ts';
import { checkSegments } from './topology.ts';

/** What a list of capabilities asks of one volume: it must satisfy all of them (A03). */
export interface Demand {
  /** Without mount flags: they are for the node, and nothing here may keep them (X02). */
  readonly access: Access;
  /** In our own order, each once. */
  readonly modes: readonly AccessMode[];
}

/** A CreateVolumeRequest that is right in itself. Whether this node can fulfil it is decided later. */
export interface VolumeRequest {
  readonly name: string;
  readonly range: CapacityRange | undefined;
  readonly demand: Demand;
  readonly parameters: VolumeParameters;
  /** As they came, sorted by key. */
  readonly allParameters: Readonly<Record<string, string>>;
  readonly topology: TopologyRequirement | undefined;
}

/** @throws InvalidArgument */
export function parseVolumeRequest(request: wire.CreateVolumeRequest): VolumeRequest {
  if (request.volume_content_source !== null) {
    throw new InvalidArgument('volume_content_source: volumes cannot be made from snapshots or other volumes yet.');
  }
  refuseMutableParameters(request.mutable_parameters);
  const topology = parseTopologyRequirement(request.accessibility_requirements);
  for (const segments of [...(topology?.requisite ?? []), ...(topology?.preferred ?? [])]) checkSegments(segments);
  return {
    name: request.name,
    range: parseCapacityRange(request.capacity_range),
    demand: parseDemand(request.volume_capabilities, (message) => new InvalidArgument(message)),
    parameters: parseParameters(request.parameters),
    allParameters: sortedParameters(request.parameters),
    topology,
  };
}

/**
 * @param onUnsupported makes the error for what is right in itself but not ours to give
 * @throws InvalidArgument for a capability that is wrong in itself (L13, L14)
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
  // An unnamed filesystem goes with any (A06).
  const named = [...fsTypes].filter((fsType) => fsType !== undefined && fsType !== 'block');
  if (named.length > 1) {
    throw onUnsupported(`One volume cannot hold ${named.join(' and ')}: ask for one filesystem.`);
  }
  return { access: { type: 'mount', fsType: named[0], mountFlags: [] }, modes };
}

/** @throws InvalidArgument if there are any: MODIFY_VOLUME is not offered (CV13) */
export function refuseMutableParameters(parameters: Readonly<Record<string, string>>): void {
  const [key] = Object.keys(parameters);
  if (key === undefined) return;
  throw new InvalidArgument(`mutable_parameters (${JSON.stringify(key)}) are not supported; put it into parameters.`);
}

/** Equal for requests that may share one answer. Secrets are no part of it. */
export function fingerprint(request: object): string {
  return JSON.stringify(request, (_key, value: unknown) => (typeof value === 'bigint' ? `${value}` : value));
}
