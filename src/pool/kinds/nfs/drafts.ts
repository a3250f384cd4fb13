import { chmod, mkdir, rm } from 'node:fs/promises';
import { copyTree } from '../../../command/copy-tree.ts';
import { CommandError } from '../../../command/run.ts';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import { syncFilesystem } from '../../../kernel/file/filesystem.ts';
import { FailedPrecondition, ResourceExhausted } from '../../../volume/errors.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Clone, Recorded, SnapshotDraft, VolumeDraft } from '../../backend.ts';
import { SnapshotFileDraft, VolumeFileDraft } from '../../records/file-draft.ts';
import { refuseMountsInside } from '../../records/mounts-inside.ts';
import type { NfsParts } from './backend.ts';
import { readNfsParameters } from './parameters.ts';

/** The mode of an emptyDir: a pod may run as any user. Other users are kept out by the mode of the pool's own directory. */
const newMode = 0o777;

/**
 * A volume on its way. A copy that was cut short is begun again in a draft of another name: of a file that was copied half,
 * neither its size nor its time tells.
 */
export class NfsVolumeDraft extends VolumeFileDraft<NfsParts> implements VolumeDraft {
  #name: string | undefined;

  async check({ parameters }: VolumeRecord): Promise<void> {
    const { exported, names } = this.parts;
    this.#name = readNfsParameters(parameters, exported).name;
    // Before anything is copied; it is looked at again when it is taken.
    if (this.#name !== undefined) await names.requireFree(this.#name, this.id);
  }

  override async commit(): Promise<void> {
    if (this.#name === undefined) {
      await super.commit();
      return;
    }
    await this.parts.beforeChange?.();
    await this.parts.names.take(this.#name, this.id, () => super.commit());
  }

  clone(source: Recorded): Clone {
    return cloneInto(this.parts, source, this.data);
  }

  async make(record: VolumeRecord): Promise<void> {
    const { order, queue } = this.parts;
    await step('create/data', async () => {
      await queue.run(() => mkdir(this.data));
      // mkdir(2) leaves out what the umask has.
      await queue.run(() => chmod(this.data, newMode));
    });
    await order.names(this.data);
    await this.writeRecord(record);
    await order.names(this.directory);
  }

  async complete(record: VolumeRecord): Promise<void> {
    await this.writeRecord(record);
    await this.parts.order.names(this.directory);
  }
}

/** A snapshot on its way: a copy of the tree. */
export class NfsSnapshotDraft extends SnapshotFileDraft<NfsParts> implements SnapshotDraft {
  clone(source: Recorded): Clone {
    return cloneInto(this.parts, source, this.data);
  }
}

/** Nothing can be done ahead: a file that is written to meanwhile would not be of the same moment as the others. */
function cloneInto(parts: NfsParts, source: Recorded, data: string): Clone {
  const { layout, programs, queue } = parts;
  return {
    complete: async () => {
      const from = layout.dataOf(source.record.id);
      await refuseMountsInside(queue, from, source.record.id);
      await queue.run(() => rm(data, { recursive: true, force: true }));
      await queue.run(() => mkdir(data));
      await programs
        .watch(() => copyTree(from, data, { sharing: 'auto' }))
        .catch((error) => {
          throw explainCopy(error, parts.name, source);
        });
      await using directory = await openReadOnly(queue, data);
      await syncFilesystem(queue, directory);
    },
  };
}

/** cp(1) tells it in words: those of strerror(3), in the C locale. */
function explainCopy(error: unknown, poolName: string, { kind, record }: Recorded): unknown {
  if (!(error instanceof CommandError)) return error;
  if (/: (No space left on device|Disk quota exceeded)$/m.test(error.stderr)) {
    return new ResourceExhausted(
      `pool ${poolName} has no room for a copy of ${kind} ${record.id}: its NFS server is full.`,
    );
  }
  if (/preserv.*: (Operation not permitted|Invalid argument)$/m.test(error.stderr)) {
    return new FailedPrecondition(
      `${kind} ${record.id} cannot be copied: the NFS server does not let the driver keep the owners of its files. Export the share with no_root_squash.`,
    );
  }
  return error;
}
