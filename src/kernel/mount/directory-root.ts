import { type DeviceNumber, sameDevice } from '../device.ts';
import type { Mount } from './mount-table.ts';

/** A directory as mount tables show it: its filesystem, and its path there. */
export interface DirectoryRoot {
  readonly device: DeviceNumber;
  readonly root: string;
}

/** Answers if a path is the directory's, or leads into it. */
export function isAtOrBelow(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory === '/' ? '/' : `${directory}/`);
}

/** Answers if a mount shows the directory, or a directory in it. */
export function showsDirectory({ device, root }: Pick<Mount, 'device' | 'root'>, directory: DirectoryRoot): boolean {
  return sameDevice(device, directory.device) && isAtOrBelow(root, directory.root);
}

/** The path in the mounted filesystem of a path through this mount; undefined: the path does not lead through it. */
export function rootThrough({ root, target }: Pick<Mount, 'root' | 'target'>, path: string): string | undefined {
  if (!isAtOrBelow(path, target)) return undefined;
  const rest = target === '/' ? path : path.slice(target.length);
  if (rest === '' || rest === '/') return root;
  return root === '/' ? rest : root + rest;
}

/**
 * The filesystem and the path there of the directory at a path without symbolic links. Follows the path as the kernel
 * does: from the root on, mount after mount. Only the table is read, so a dead disk does no harm.
 */
export function findRoot(table: readonly Mount[], path: string): DirectoryRoot | undefined {
  const ids = new Set(table.map(({ id }) => id));
  const onTheWay = table.filter(({ target }) => isAtOrBelow(path, target));
  let mount = onTheWay.find(({ parentId, target }) => target === '/' && !ids.has(parentId));
  for (let upon = mount; upon !== undefined; ) {
    mount = upon;
    upon = nearest(onTheWay.filter(({ id, parentId }) => parentId === mount?.id && id !== mount.id));
  }
  const root = mount && rootThrough(mount, path);
  return mount === undefined || root === undefined ? undefined : { device: mount.device, root };
}

/** The first of the mounts in one mount that a path leads through. */
function nearest(mounts: readonly Mount[]): Mount | undefined {
  return mounts.toSorted((a, b) => a.target.length - b.target.length)[0];
}
