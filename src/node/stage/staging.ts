import type { VolumeOnNode } from '../../pool/node-side.ts';
import type { VolumeContent } from '../../volume/capability.ts';
import { fileNameOf, type VolumeHandle } from '../../volume/handle.ts';
import type { NodeContext } from '../context.ts';
import { completeAttributes, wantedAttributes } from '../mount-options.ts';
import type { StageNote } from '../notes.ts';
import { identify, LazyMountTable } from '../path/observe.ts';
import { openHandle, openPlace, openPlaceIn, type Place } from '../path/path-handle.ts';
import { checkTargetPath, type TargetPath } from '../path/target.ts';
import type { Noted, WantedMount } from '../plan.ts';
import type { Demand } from '../request.ts';

/**
 * The place where a staged volume is visible: a filesystem or a directory on the staging directory itself, a device in it, as a
 * file with the volume's id (`fileNameOf`).
 * @returns undefined if the directory is missing
 */
export function openStagingPlace(
  { queue }: NodeContext,
  staging: TargetPath,
  content: VolumeContent,
  volumeId: VolumeHandle,
): Promise<Place | undefined> {
  return content.type === 'block' ? openPlaceIn(queue, staging, fileNameOf(volumeId)) : openPlace(queue, staging);
}

/** The mount of a volume at its staging path. A block volume's device may take writes or refuse them. */
export function wantedWhenStaged(content: VolumeContent, { isReadonly, options }: Demand): WantedMount {
  if (content.type === 'block') return { access: 'block', attributes: completeAttributes({}) };
  return { access: 'mount', attributes: wantedAttributes(content, { ...options.attributes, readonly: isReadonly }) };
}

/** The note's statement about a stage at this path. */
export function notedStage(note: StageNote | undefined, path: string, digest: string): Noted {
  if (note?.path !== path) return 'unknown';
  return note.digest === digest ? 'same' : 'different';
}

/** The other path at which the volume is staged, according to its note and to the kernel. */
export async function stagedElsewhere(
  context: NodeContext,
  { content, handle: id }: VolumeOnNode,
  note: StageNote | undefined,
  path: string,
): Promise<string | undefined> {
  const noted = note?.path;
  if (noted === undefined || noted === path) return undefined;
  const target = checkTargetPath(noted, context.targetRoots);
  if ('problem' in target) return undefined;
  using place = await openStagingPlace(context, target, content, id);
  if (place === undefined) return undefined;
  using handle = await openHandle(context.queue, place);
  const { mounted } = await identify(context, new LazyMountTable(context.queue), handle, id);
  return mounted?.owner?.handle === id ? noted : undefined;
}
