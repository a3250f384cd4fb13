import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { copyTree } from '../../../command/copy-tree.ts';
import { CommandError } from '../../../command/run.ts';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import { syncFilesystem } from '../../../kernel/file/filesystem.ts';
import { FailedPrecondition, ResourceExhausted } from '../../../volume/errors.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { shortPath } from '../../../volume/short-path.ts';
import { step } from '../../../volume/step.ts';
import type { Clone, Recorded, SnapshotDraft, VolumeDraft } from '../../backend.ts';
import { SnapshotFileDraft, VolumeFileDraft } from '../../records/file-draft.ts';
import { refuseMountsInside } from '../../records/mounts-inside.ts';
import type { DirectoryParts } from './directory-backend.ts';

/** The mode of an emptyDir: a pod may run as any user. Others on the node are kept out by the pool's own directory, root's. */
const newMode = 0o777;

/** The quota's number for "no limit". */
const noLimit = 0n;

/** A volume being made. Its data is a directory, in its own quota project where there is quota. */
export class DirectoryVolumeDraft extends VolumeFileDraft<DirectoryParts> implements VolumeDraft {
  clone(source: Recorded): Clone {
    return cloneInto(this.parts, source, this.directory, source.record.sizeBytes);
  }

  async make(record: VolumeRecord): Promise<void> {
    const { order } = this.parts;
    await step('create/data', () => makeData(this.parts, this.directory, record.sizeBytes));
    await order.names(this.data);
    await this.writeRecord(record);
    await order.names(this.directory);
  }

  async complete(record: VolumeRecord): Promise<void> {
    const { order, projects } = this.parts;
    await step('create/identity', async () => projects?.limitIn(this.directory, record.sizeBytes));
    await this.writeRecord(record);
    await order.names(this.directory);
  }
}

/** A snapshot on its way: a copy of the tree that shares its blocks. */
export class DirectorySnapshotDraft extends SnapshotFileDraft<DirectoryParts> implements SnapshotDraft {
  clone(source: Recorded): Clone {
    return cloneInto(this.parts, source, this.directory, source.record.sizeBytes);
  }
}

/** Makes the directory of a draft, in its own quota project where there is quota. */
export async function makeData({ projects, queue }: DirectoryParts, draft: string, sizeBytes: bigint): Promise<void> {
  const data = join(draft, 'data');
  await queue.run(() => mkdir(data));
  // mkdir(2) leaves out what the umask has.
  await queue.run(() => chmod(data, newMode));
  await projects?.assign(draft, sizeBytes);
}

/** Nothing can be done ahead: a file that is written to meanwhile would not be of the same moment as the others. */
function cloneInto(parts: DirectoryParts, source: Recorded, draft: string, sizeBytes: bigint): Clone {
  const { layout, programs, projects, queue } = parts;
  return {
    complete: async () => {
      const from = layout.dataOf(source.record.id);
      await refuseMountsInside(queue, from, source.record.id);
      // The limit comes last: of a source that is full, XFS has no room for the copy on its way, though it takes no more.
      await makeData(parts, draft, noLimit);
      await programs
        .watch(() => copyTree(from, join(draft, 'data'), { sharing: 'always' }))
        .catch((error) => {
          throw isOutOfSpace(error) ? noRoom(parts.name, source) : (notOnWrite(error, from, source) ?? error);
        });
      await projects?.limitIn(draft, sizeBytes);
      await using directory = await openReadOnly(queue, draft);
      await syncFilesystem(queue, directory);
    },
  };
}

/** cp(1) tells it in words: those of strerror(3), in the C locale. */
function isOutOfSpace(error: unknown): boolean {
  return error instanceof CommandError && /: (No space left on device|Disk quota exceeded)$/m.test(error.stderr);
}

/**
 * btrfs refuses to share the blocks of a file without copy-on-write with one that has it. MySQL, libvirt and journald mark
 * their files so.
 */
function notOnWrite(error: unknown, from: string, { kind, record }: Recorded): FailedPrecondition | undefined {
  if (!(error instanceof CommandError)) return undefined;
  const file = /: failed to clone .* from '(?<file>.*)': Invalid argument$/m.exec(error.stderr)?.groups?.['file'];
  if (file === undefined) return undefined;
  const name = shortPath(file.startsWith(`${from}/`) ? file.slice(from.length + 1) : file);
  return new FailedPrecondition(
    `${kind} ${record.id} cannot be copied: its file ${name} is not copied on write (chattr +C): copy it to one without that mark.`,
  );
}

function noRoom(poolName: string, { kind, record }: Recorded): ResourceExhausted {
  return new ResourceExhausted(
    `pool ${poolName} has no room for a copy of ${kind} ${record.id} (its filesystem is full): delete volumes or give it more space.`,
  );
}
