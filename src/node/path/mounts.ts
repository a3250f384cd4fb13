import { sameDevice } from '../../kernel/device.ts';
import { isAtOrBelow } from '../../kernel/mount/directory-root.ts';
import type { Mount } from '../../kernel/mount/mount-table.ts';
import { isBtrfs } from '../../kernel/mount/mounts-of-device.ts';

/** The mounts that lie under this one at the same path, the upper ones first. */
export function mountsBelow(table: readonly Mount[], top: Mount): Mount[] {
  const below: Mount[] = [];
  let upper = top;
  for (;;) {
    const lower = table.find(({ id, target }) => id === upper.parentId && target === upper.target && id !== upper.id);
    if (lower === undefined) return below;
    below.push(lower);
    upper = lower;
  }
}

/**
 * Finds the mounts that show the same as this one, or something in it. A filesystem without its own device may have
 * a number that others have, too, as those of one NFS server have: then its source distinguishes them. Each btrfs has its
 * own number, and its source may change.
 */
export function showsSameAs(mount: Mount): (mount: Mount) => boolean {
  const { device, root, source } = mount;
  const isNumbered = device.major !== 0 || isBtrfs(mount);
  return (other) =>
    sameDevice(other.device, device) && isAtOrBelow(other.root, root) && (isNumbered || other.source === source);
}

/** Places where a volume can be seen, for `shows` tells its mounts, besides the ones that are known. */
export function otherPaths(
  table: readonly Mount[],
  shows: (mount: Mount) => boolean,
  known: { readonly mounts?: readonly (Mount | undefined)[]; readonly paths?: readonly string[] },
): string[] {
  const mounts = (known.mounts ?? []).filter((mount) => mount !== undefined);
  const paths = new Set([...(known.paths ?? []), ...mounts.map(({ target }) => target)]);
  const spots = new Set(mounts.map((mount) => spotOf(table, mount)));
  const others = table.filter((mount) => shows(mount) && !paths.has(mount.target) && !spots.has(spotOf(table, mount)));
  return [...new Set(others.map(({ target }) => target))];
}

/**
 * The spot that a mount is mounted on, whatever path leads there. Where a tree is visible twice, e.g. as / and /host, a
 * mount in it appears at both paths, on the same spot.
 */
function spotOf(table: readonly Mount[], { parentId, target }: Mount): string {
  const parent = table.find(({ id }) => id === parentId);
  if (parent === undefined) return target;
  const below = parent.target === '/' ? target : target.slice(parent.target.length);
  const { major, minor } = parent.device;
  return `${major}:${minor} ${parent.root === '/' ? '' : parent.root}${below}`;
}
