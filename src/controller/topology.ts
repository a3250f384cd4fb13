import type { TopologyRequirement, TopologySegments } from '../csi/parse.ts';
import { InvalidArgument } from '../volume/errors.ts';

// Y01: name and value are 1 to 63 of [A-Za-z0-9-_.] between alphanumerics; a prefix is a lower-case DNS name.
const label = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const prefix = /^(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/** @throws InvalidArgument if a key or value cannot be one, or two keys differ by case alone (Y01) */
export function checkSegments(segments: TopologySegments): void {
  const seen = new Set<string>();
  for (const [key, value] of Object.entries(segments)) {
    if (!isKey(key)) throw new InvalidArgument(`${JSON.stringify(key)} is not a topology key.`);
    if (!label.test(value)) throw new InvalidArgument(`${JSON.stringify(value)} is not a value for ${key}.`);
    if (seen.has(key.toLowerCase())) throw new InvalidArgument(`Topology key ${key} is there twice.`);
    seen.add(key.toLowerCase());
  }
}

function isKey(key: string): boolean {
  const slash = key.indexOf('/');
  return slash < 0 ? label.test(key) : prefix.test(key.slice(0, slash)) && label.test(key.slice(slash + 1));
}

/**
 * Answers if this node lies in the topology that the segments describe. A key that we do not know describes a topology
 * that we do not belong to; an empty list of segments matches every node.
 * @param here undefined: volumes are reachable everywhere
 */
export function contains(segments: TopologySegments, here: TopologySegments | undefined): boolean {
  if (here === undefined) return true;
  return Object.entries(segments).every(([key, value]) =>
    Object.entries(here).some(([ours, ourValue]) => ours.toLowerCase() === key.toLowerCase() && ourValue === value),
  );
}

/**
 * Answers if a volume on this node meets the requirement (Y03). A volume lies where it is made, so there is nothing to
 * prefer; preferences without a requisite forbid nothing.
 */
export function allowsHere(requirement: TopologyRequirement | undefined, here: TopologySegments | undefined): boolean {
  if (requirement === undefined || requirement.requisite.length === 0) return true;
  return requirement.requisite.some((segments) => contains(segments, here));
}
