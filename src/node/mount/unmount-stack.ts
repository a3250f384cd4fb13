import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { unmountAt } from '../../kernel/mount/mount.ts';
import { isNfs, unmountNfsAt } from '../../kernel/nfs/unmount.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { shortPath } from '../../volume/short-path.ts';
import { type StepName, step } from '../../volume/step.ts';
import type { NodeContext } from '../context.ts';
import { busyMount, holdersOf } from '../path/busy.ts';
import { mountsBelow } from '../path/mounts.ts';
import { identify, isLost, LazyMountTable, type Observation } from '../path/observe.ts';
import { openHandle, type PathHandle, type Place } from '../path/path-handle.ts';

/** More mounts than this on one path are no leftovers of ours. */
const maxStacked = 64;

/** The mounts that were undone, and the last look. */
export interface Unmounted {
  readonly unmounted: readonly Observation[];
  readonly last: Observation;
}

/** The decision of an undoing, each time it has looked. */
export type Decide = (observed: Observation, mounts: LazyMountTable) => Promise<'unmount' | 'stop'>;

/** Looks at a place and unmounts the mounts there, one after the other if several are stacked, until `decide` says stop. */
export async function unmountStack(
  context: NodeContext,
  place: Place,
  volumeId: string,
  stepName: StepName,
  decide: Decide,
): Promise<Unmounted> {
  const unmounted: Observation[] = [];
  while (unmounted.length < maxStacked) {
    const mounts = new LazyMountTable(context.queue);
    const observed = await observe(context, mounts, place, volumeId);
    if ((await decide(observed, mounts)) === 'stop') return { unmounted, last: observed };
    // The pool's disk may have to be written to; if it hangs, only that pool's queue fills.
    const queue = observed.mounted?.owner?.access?.queue ?? context.queue;
    const { parent, name } = place;
    const unmount = (open: DiskQueue) => unmountAt(open, parent, name);
    const own = observed.mounted?.owner?.access?.unmount;
    const mount = observed.mounted?.mount;
    const undo = (): Promise<void> => {
      if (mount === undefined) return queue.rescue(unmount);
      if (own !== undefined) return own({ parent, name, mount });
      // The volume of the mount need not be known: its server may be gone.
      return isNfs(mount) ? unmountNfsAt(parent, name, mount) : queue.rescue(unmount);
    };
    const tryIt = () => step(stepName, undo);
    await tryIt().catch(async (error) => {
      if (!isErrno(error, 'EBUSY')) throw error;
      const found = await holdersOf(context.queue, observed.mounted);
      // A program that was just being started had our descriptors, or a driver before us was still dying: that is over now.
      await tryIt().catch((again) => {
        throw isErrno(again, 'EBUSY') ? busyMount(volumeId, found) : again;
      });
    });
    unmounted.push(observed);
    if (observed.mounted?.access === 'mount' && mountsBelow(await mounts.read(), observed.mounted.mount).length === 0) {
      return { unmounted, last: bareDirectory };
    }
  }
  throw new FailedPrecondition(`${shortPath(place.path)} still has mounts on it after ${maxStacked} were undone.`);
}

/**
 * Unmounts mounts at a place whose process has ended.
 * @param handle keeps the mount: it is closed
 * @returns the object there now, for the caller to close
 */
export async function unmountLost(
  context: NodeContext,
  place: Place,
  volumeId: string,
  handle: PathHandle | undefined,
): Promise<PathHandle | undefined> {
  handle?.[Symbol.dispose]();
  await unmountStack(context, place, volumeId, 'unstage/unmount', async (observed) =>
    (await isLost(observed)) ? 'unmount' : 'stop',
  );
  return await openHandle(context.queue, place);
}

/** The directory may have entries: rmdir(2) finds that out in the step in which it removes it. */
const bareDirectory: Observation = { occupant: { kind: 'directory', isEmpty: true }, mounted: undefined };

/** A look that holds nothing open when it is over: an open object cannot be unmounted. */
async function observe(
  context: NodeContext,
  mounts: LazyMountTable,
  place: Place,
  volumeId: string,
): Promise<Observation> {
  using handle = await openHandle(context.queue, place);
  if (handle?.kind === 'directory' && !handle.isMountRoot) {
    return bareDirectory;
  }
  return await identify(context, mounts, handle, volumeId);
}
