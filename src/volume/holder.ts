import { shortPath } from './short-path.ts';

/** A user of a volume on this node. Paths are as their process sees them, or as this driver sees them where it can. */
export type Holder =
  /** A process that has a file of the volume open or mapped, or has its working directory or root in it. */
  | { readonly kind: 'process'; readonly pid: number; readonly command: string; readonly path: string }
  /** The volume is mounted there, or something is mounted on it. */
  | { readonly kind: 'mount'; readonly path: string; readonly namespaceOf: NamespaceMember | undefined }
  /** Another block device is built on the volume's device, or on a file in the volume; or the kernel swaps to one of them. */
  | {
      readonly kind: 'device';
      readonly path: string;
      /** The name in device-mapper, by which the owner of the device knows it. For swap space: `swapSpace`. */
      readonly name?: string | undefined;
    };

/**
 * The name of a device or file that the kernel swaps to. Not a new kind: controllers of older versions know only
 * the three kinds above.
 */
export const swapSpace = 'swap space, see swapoff';

/** A process by which a mount namespace is named; undefined stands for the driver's own. */
export interface NamespaceMember {
  readonly pid: number;
  readonly command: string;
}

/** The result of a search for holders. */
export interface FoundHolders {
  readonly holders: readonly Holder[];
  /** false: there was no time to look everywhere. */
  readonly isComplete: boolean;
}

/** `by process 1234 (postgres) at /data/base and 2 others`: stands after "in use". `holdfast who` shows them all. */
export function describeHolders({ holders, isComplete }: FoundHolders): string {
  // A pod's own mount is named first: the reader of this message can end the pod.
  const first = holders.find(({ path }) => path.includes('/pods/')) ?? holders[0];
  if (first === undefined) {
    return isComplete
      ? 'by something that this driver cannot see, in another process namespace perhaps'
      : 'by something that the search did not find in time';
  }
  const others = holders.length - 1;
  return `by ${describeHolder(first)}${others === 0 ? '' : ` and ${others} ${others === 1 ? 'other' : 'others'}`}`;
}

function describeHolder(holder: Holder): string {
  const path = shortPath(holder.path);
  switch (holder.kind) {
    case 'process':
      return `process ${holder.pid} (${holder.command}) at ${path}`;
    case 'device':
      return `device ${path}${holder.name === undefined ? '' : ` (${shortPath(holder.name)})`}`;
    case 'mount': {
      const { namespaceOf } = holder;
      const where = namespaceOf === undefined ? '' : ` for process ${namespaceOf.pid} (${namespaceOf.command})`;
      return `the mount at ${path}${where}`;
    }
  }
}
