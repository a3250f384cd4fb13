import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Lane } from '../../kernel/lane.ts';
import type { Ballast } from './ballast.ts';
import { freeInBackingFile } from './space.ts';

export const statBlockBytes = 512n;
/** A volume takes three, and those that are made at the same time take theirs. */
const fewestInodes = 16n;

/** What a pool's filesystem has. */
export interface FilesystemSpace {
  readonly filesystemBytes: bigint;
  readonly freeBytes: bigint;
  /** It has blocks, perhaps, but can hold no more files. */
  readonly isOutOfInodes: boolean;
}

export interface SpacePlace {
  readonly root: string;
  /** The sparse file that the filesystem lies in, if it does. */
  readonly backingFile: string | undefined;
  /** What is held in it and on its host, and free when it is needed. */
  readonly ballast: Pick<Ballast, 'bytes' | 'hostBytes'>;
}

export async function readFilesystemSpace(lane: Lane, place: SpacePlace): Promise<FilesystemSpace> {
  const { backingFile, ballast, root } = place;
  const [inside, host, backing] = await Promise.all([
    lane.run(() => statfs(root, { bigint: true })),
    backingFile === undefined ? undefined : lane.run(() => statfs(dirname(backingFile), { bigint: true })),
    backingFile === undefined ? undefined : lane.run(() => stat(backingFile, { bigint: true })),
  ]);
  const filesystemBytes = inside.blocks * inside.bsize;
  const freeBytes = inside.bavail * inside.bsize + ballast.bytes;
  // btrfs makes inodes as it needs them, and counts none.
  const isOutOfInodes = inside.files > 0n && inside.ffree < fewestInodes;
  if (host === undefined || backing === undefined) return { filesystemBytes, freeBytes, isOutOfInodes };
  const bounded = freeInBackingFile({
    freeBytes,
    backingSizeBytes: backing.size,
    backingAllocatedBytes: backing.blocks * statBlockBytes,
    hostFreeBytes: host.bavail * host.bsize + ballast.hostBytes,
  });
  return { filesystemBytes, freeBytes: bounded, isOutOfInodes };
}
