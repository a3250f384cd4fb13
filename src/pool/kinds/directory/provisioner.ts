import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { readProject } from '../../../kernel/file/project-id.ts';
import { DataLoss, HoldfastError } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Provisioner, Recorded, VolumeDraft } from '../../backend.ts';
import { abnormal } from '../../condition.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { Condition } from '../../pool.ts';
import { FileRemoval } from '../../records/file-removal.ts';
import { removeDirectory } from '../../records/remove-directory.ts';
import type { DirectoryParts } from './directory-backend.ts';
import { DirectoryVolumeDraft } from './drafts.ts';
import { projectFileName } from './projects.ts';

const sizeNotEnforced: Condition = abnormal(
  'Not all of its files can be read, or put into its quota project: its size is not enforced.',
);

/** Makes, changes and removes directories. */
export class DirectoryProvisioner extends FileRemoval<DirectoryParts> implements Provisioner {
  draft(id: VolumeId): VolumeDraft {
    return new DirectoryVolumeDraft(this.parts, id);
  }

  async verify({ kind, record }: Recorded): Promise<void> {
    if (await this.#isThere(record.id)) return;
    throw new DataLoss(`${kind} ${record.id}: its directory is missing.`);
  }

  async conditionOf({ id }: VolumeRecord): Promise<Condition | undefined> {
    const { handovers, layout, projects, queue } = this.parts;
    try {
      await using data = await openReadOnly(queue, layout.data(id));
      if (handovers.isUnsettled(id)) return sizeNotEnforced;
      const project = await projects?.of(layout.volume(id));
      if (project === undefined || (await readProject(queue, data)).id === project) return undefined;
      return abnormal('Its directory was put into another quota project: its size is not enforced.');
    } catch (error) {
      // For example, the pool is in quarantine by now.
      if (error instanceof HoldfastError) throw error;
      if (isErrno(error, 'ENOENT')) return abnormal('The directory is missing.');
      return abnormal('The directory cannot be read; see the kernel log of the node.');
    }
  }

  /** By its quota: what a driver was killed in the middle of is finished by that. */
  async sizeOf(id: VolumeId): Promise<bigint | undefined> {
    const { layout, projects } = this.parts;
    const bytes = (await projects?.usageIn(layout.volume(id)))?.limits.bytes;
    return bytes === 0n ? undefined : bytes;
  }

  async grow({ id, sizeBytes }: VolumeRecord): Promise<void> {
    const { layout, projects } = this.parts;
    await projects?.limitIn(layout.volume(id), sizeBytes);
  }

  /** The note of its project goes last: as long as it is there, no other volume gets that project. */
  async destroy(ref: TrashRef): Promise<void> {
    const { projects, queue } = this.parts;
    await removeDirectory(queue, ref, { name: projectFileName, before: async () => projects?.release(ref) });
  }

  async #isThere(id: Recorded['record']['id']): Promise<boolean> {
    const { layout, queue } = this.parts;
    return (await statusOf(queue, layout.dataOf(id)).catch(ignoreMissing))?.kind === 'directory';
  }
}
