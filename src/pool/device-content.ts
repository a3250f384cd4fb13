import { singleNodeModes } from '../volume/capability.ts';
import { InvalidArgument } from '../volume/errors.ts';
import { isServed } from '../volume/filesystem.ts';
import type { VolumeId } from '../volume/id.ts';
import type { ContextContent, ContextDemand } from './node-side.ts';
import type { Seen, SeenVolume } from './pool.ts';

/**
 * The content of a volume that is a device which several nodes can reach.
 * @param refusal the words for a filesystem that no device has, such as nfs
 * @throws InvalidArgument
 */
export function deviceContent({ access, fsType }: ContextDemand, refusal: (fsType: string) => string): ContextContent {
  if (access === 'block') return { content: { type: 'block' } };
  if (isServed(fsType)) throw new InvalidArgument(refusal(fsType));
  // Two nodes that have one of these filesystems mounted destroy it, also if both only read.
  return { content: { type: 'mount', fsType: fsType ?? 'ext4' }, accessModes: singleNodeModes };
}

/** The part of a volume that is seen on its device: all of it, or a directory of its filesystem. */
export function seenOnDevice({ mount }: Pick<Seen, 'mount'>): 'whole' | 'part' {
  return mount === undefined || mount.root === '/' ? 'whole' : 'part';
}

/** A volume that is seen on its device. */
export function seenVolume(id: VolumeId, seen: Pick<Seen, 'mount'>): SeenVolume {
  return { id, isWhole: seenOnDevice(seen) === 'whole' };
}
