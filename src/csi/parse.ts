import { didYouMean } from '../settings/nearest.ts';
import { type Access, type AccessMode, accessModes, type VolumeCapability } from '../volume/capability.ts';
import { type HoldfastError, InvalidArgument } from '../volume/errors.ts';
import { filesystemTypes, parseFilesystemType, parseServedType } from '../volume/filesystem.ts';
import type { CapacityRange } from '../volume/size.ts';
import type * as wire from './generated/types.ts';

/**
 * Parses a capability. One that is malformed is INVALID_ARGUMENT (L13, L14). One that is well-formed but not supported,
 * a filesystem or an access mode, has another code in each RPC (A04): the caller makes that error from the message.
 */
export function parseCapability(
  capability: wire.VolumeCapability,
  onUnsupported: (message: string) => HoldfastError,
): VolumeCapability {
  const access = parseAccess(capability, onUnsupported);
  return { access, mode: parseAccessMode(capability.access_mode?.mode) };
}

function parseAccess(
  { block, mount }: wire.VolumeCapability,
  onUnsupported: (message: string) => HoldfastError,
): Access {
  // An empty `block {}` or `mount {}` counts as set (L14).
  if (block) return { type: 'block' };
  if (!mount) throw new InvalidArgument('A volume_capability needs an access type: block or mount.');
  // None of our filesystems has a mount option for a group, so VOLUME_MOUNT_GROUP is not advertised (G10).
  if (mount.volume_mount_group !== '') throw onUnsupported('volume_mount_group is not supported.');
  const fsType =
    mount.fs_type === '' ? undefined : (parseFilesystemType(mount.fs_type) ?? parseServedType(mount.fs_type));
  if (mount.fs_type !== '' && fsType === undefined) {
    throw onUnsupported(
      `fs_type '${mount.fs_type}' is not supported; there are ${filesystemTypes.join(', ')}${didYouMean(mount.fs_type, filesystemTypes)}.`,
    );
  }
  return { type: 'mount', fsType, mountFlags: mount.mount_flags };
}

/** Its pool decides if a volume can be used in this mode (A05). */
function parseAccessMode(mode: wire.VolumeCapabilityAccessModeMode | undefined): AccessMode {
  if (mode === undefined || mode === 'UNKNOWN') throw new InvalidArgument('A volume_capability needs an access_mode.');
  const known = accessModes.find((each) => each === mode);
  if (known === undefined) throw new InvalidArgument(`There is no access_mode with the number ${mode}.`);
  return known;
}

/** Parses a capacity range (CV04, L11). undefined: the caller asked for no size. */
export function parseCapacityRange(range: wire.CapacityRange | null): CapacityRange | undefined {
  if (range === null) return undefined;
  const { required_bytes: required, limit_bytes: limit } = range;
  if (required < 0n || limit < 0n) throw new InvalidArgument('capacity_range has a negative size.');
  if (required === 0n && limit === 0n) {
    throw new InvalidArgument('capacity_range needs required_bytes, limit_bytes or both.');
  }
  if (limit !== 0n && required > limit) {
    throw new InvalidArgument(`required_bytes (${required}) are more than limit_bytes (${limit}).`);
  }
  return { requiredBytes: required === 0n ? undefined : required, limitBytes: limit === 0n ? undefined : limit };
}

/** A part of the cluster, by topology keys. */
export type TopologySegments = Readonly<Record<string, string>>;

/**
 * Topologies from which a volume must be reachable, or should be if possible. At least one of the lists has entries.
 */
export interface TopologyRequirement {
  readonly requisite: readonly TopologySegments[];
  readonly preferred: readonly TopologySegments[];
}

/** Parses accessibility_requirements (Y02). undefined: we choose the topology (Y04). */
export function parseTopologyRequirement(
  requirement: wire.TopologyRequirement | null,
): TopologyRequirement | undefined {
  if (requirement === null) return undefined;
  const requisite = requirement.requisite.map((topology) => topology.segments);
  const preferred = requirement.preferred.map((topology) => topology.segments);
  if (requisite.length === 0 && preferred.length === 0) {
    throw new InvalidArgument('accessibility_requirements needs requisite, preferred or both.');
  }
  // A set: a cluster has thousands of nodes, and the lists may name them all.
  const allowed = new Set(requisite.map(canonicalSegments));
  if (requisite.length > 0 && !preferred.every((wished) => allowed.has(canonicalSegments(wished)))) {
    throw new InvalidArgument('accessibility_requirements prefers a topology that is not among the requisite ones.');
  }
  return { requisite, preferred };
}

/** Returns the same text for segments with the same meaning; keys do not differ by case alone (Y01). */
function canonicalSegments(segments: TopologySegments): string {
  const entries = Object.entries(segments).map(([key, value]) => [key.toLowerCase(), value] as const);
  return JSON.stringify(entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
}
