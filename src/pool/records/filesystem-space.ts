import { basename, dirname } from 'node:path';
import { openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { finishUnlinks, syncFilesystem } from '../../kernel/file/filesystem.ts';
import { filesystemType } from '../../kernel/file/filesystem-type.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { UsageOfPath } from '../../kernel/file/usage.ts';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import type { StorageSpace } from '../backend.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import { freeInBackingFile } from '../space/space.ts';
import type { Layout } from './layout.ts';
import type { ReservedSpace } from './reserved-space.ts';

/** A volume takes three, and those that are made at the same time take theirs. */
const fewestInodes = 16n;

export interface SpaceParts {
  readonly queue: DiskQueue;
  readonly layout: Layout;
  /** The space that is held in it and on its host, and free when it is needed. */
  readonly reserve: Pick<ReservedSpace, 'bytes' | 'hostBytes'>;
  /** The sparse file that the filesystem lies in, if it does. */
  readonly backingFile?: string | undefined;
  /** The filesystem holds the pool and nothing else, so the driver alone mounts it. */
  readonly isAlone?: boolean | undefined;
}

/** The common part of all kinds whose volumes lie on a filesystem. */
export abstract class FilesystemSpace<Parts extends SpaceParts> {
  protected readonly parts: Parts;
  readonly #inside: UsageOfPath;
  readonly #host: UsageOfPath | undefined;

  constructor(parts: Parts) {
    const { backingFile, isAlone, layout, queue } = parts;
    this.parts = parts;
    this.#inside = new UsageOfPath(queue, layout.root, { hasNoQuota: isAlone });
    this.#host = backingFile === undefined ? undefined : new UsageOfPath(queue, dirname(backingFile));
  }

  get reservedBytes(): bigint {
    return this.parts.reserve.bytes;
  }

  async storage(): Promise<StorageSpace> {
    const { backingFile, queue, reserve } = this.parts;
    const [inside, host, backing] = await Promise.all([
      this.#inside.read(),
      this.#host?.read(),
      backingFile === undefined ? undefined : statusOf(queue, backingFile),
    ]);
    const filesystemBytes = inside.blocks * inside.bsize;
    const freeBytes = inside.bavail * inside.bsize + reserve.bytes;
    const takenBytes = (inside.blocks - inside.bfree) * inside.bsize - reserve.bytes;
    const isCountedLate = inside.type === filesystemType.btrfs;
    // btrfs makes inodes as it needs them, and counts none.
    const isOutOfInodes = inside.files > 0n && inside.ffree < fewestInodes;
    const sight = { filesystemBytes, freeBytes, takenBytes, isCountedLate, isOutOfInodes };
    if (host === undefined || backing === undefined) return sight;
    const bounded = freeInBackingFile({
      freeBytes,
      backingSizeBytes: backing.sizeBytes,
      backingAllocatedBytes: backing.allocatedBytes,
      hostFreeBytes: host.bavail * host.bsize + reserve.hostBytes,
    });
    return { ...sight, freeBytes: bounded };
  }

  async sync(): Promise<void> {
    const { layout, queue } = this.parts;
    await using root = await openReadOnly(queue, layout.root);
    await syncFilesystem(queue, root);
  }

  settle(): Promise<void> {
    return finishUnlinks(this.parts.queue, this.parts.layout.root);
  }

  /** An object on its way out is named after its id (`Layout.newTrash`). */
  idInTrash(ref: TrashRef): VolumeId | SnapshotId | undefined {
    const id = basename(ref).split('.')[0] ?? '';
    return parseVolumeId(id) ?? parseSnapshotId(id);
  }
}

/** 0 for a file that is missing. */
export async function allocatedBytesOf(queue: DiskQueue, path: string): Promise<bigint> {
  return (await statusOf(queue, path).catch(ignoreMissing))?.allocatedBytes ?? 0n;
}
