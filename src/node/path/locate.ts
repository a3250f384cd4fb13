import type { OwnedOnNode } from '../../pool/node-side.ts';
import { InvalidArgument, NotFound } from '../../volume/errors.ts';
import { fileNameOf, type VolumeHandle } from '../../volume/handle.ts';
import { shortPath } from '../../volume/short-path.ts';
import type { NodeContext } from '../context.ts';
import { identify, LazyMountTable, type Mounted } from './observe.ts';
import { openHandle, openPlace, openPlaceIn, type PathHandle, type Place } from './path-handle.ts';
import { checkTargetPath, type TargetPath } from './target.ts';

/** A volume where it is staged or published, held open. */
export interface Located extends Disposable {
  readonly handle: PathHandle;
  readonly mounted: Mounted & { readonly owner: OwnedOnNode };
  readonly mounts: LazyMountTable;
}

/**
 * Finds the volume at a path it is staged or published at; for a block volume the staging directory is such a path too.
 * @throws NotFound if it is not there, whatever else is (VS04, VS07, NE10)
 */
export async function locate(context: NodeContext, path: string, id: VolumeHandle): Promise<Located> {
  const target = requireVolumePath(context, path, id);
  const located =
    (await locateAt(context, openPlace(context.queue, target), id)) ??
    (await locateAt(context, openPlaceIn(context.queue, target, fileNameOf(id)), id));
  if (located === undefined) throw notThere(id, path);
  return located;
}

/** A path of the wrong form, a relative one too, is one at which the volume is not. @throws NotFound */
export function requireVolumePath({ targetRoots }: NodeContext, path: string, id: VolumeHandle): TargetPath {
  const target = checkTargetPath(path, targetRoots);
  if ('problem' in target) throw notThere(id, path);
  return target;
}

async function locateAt(
  context: NodeContext,
  opening: Promise<Place | undefined>,
  id: VolumeHandle,
): Promise<Located | undefined> {
  using place = await opening.catch(nothingIfRefused);
  const handle = place === undefined ? undefined : await openHandle(context.queue, place).catch(nothingIfRefused);
  if (handle === undefined) return undefined;
  try {
    const mounts = new LazyMountTable(context.queue);
    // It does not matter here if an unmounted directory is empty.
    const { mounted } = handle.isMountRoot ? await identify(context, mounts, handle, id) : { mounted: undefined };
    const owner = mounted?.owner;
    if (mounted !== undefined && owner?.handle === id)
      return { handle, mounted: { ...mounted, owner }, mounts, [Symbol.dispose]: handle[Symbol.dispose] };
  } catch (error) {
    handle[Symbol.dispose]();
    throw error;
  }
  handle[Symbol.dispose]();
  return undefined;
}

/** No volume is behind a symbolic link, nor below a file. */
function nothingIfRefused(error: unknown): undefined {
  if (error instanceof InvalidArgument) return undefined;
  throw error;
}

function notThere(id: VolumeHandle, path: string): NotFound {
  return new NotFound(`volume ${id} is not at ${shortPath(path)}.`);
}
