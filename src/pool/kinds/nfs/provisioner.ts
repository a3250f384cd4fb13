import { mkdir, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { readIfThere, syncDirectory } from '../../../kernel/file/file.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { DataLoss, HoldfastError, InvalidArgument } from '../../../volume/errors.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import { parseRecord, type VolumeRecord } from '../../../volume/record.ts';
import type { Provisioner, Recorded, VolumeDraft } from '../../backend.ts';
import { abnormal } from '../../condition.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { Condition } from '../../pool.ts';
import { FileRemoval } from '../../records/file-removal.ts';
import { removeDirectory } from '../../records/remove-directory.ts';
import type { NfsParts } from './backend.ts';
import { NfsVolumeDraft } from './drafts.ts';
import { keptName, type OnDelete, onDeletes } from './on-delete.ts';
import { readNfsParameters } from './parameters.ts';

/** Makes and removes directories on NFS. */
export class NfsProvisioner extends FileRemoval<NfsParts> implements Provisioner {
  draft(id: VolumeId): VolumeDraft {
    return new NfsVolumeDraft(this.parts, id);
  }

  async verify({ kind, record }: Recorded): Promise<void> {
    const { layout, queue } = this.parts;
    const status = await statusOf(queue, layout.dataOf(record.id)).catch(ignoreMissing);
    if (status?.kind !== 'directory') throw new DataLoss(`${kind} ${record.id}: its directory is missing.`);
  }

  async conditionOf({ id }: VolumeRecord): Promise<Condition | undefined> {
    const { layout, queue } = this.parts;
    try {
      await using _data = await openReadOnly(queue, layout.data(id));
      return undefined;
    } catch (error) {
      // The pool is in quarantine by now, for example.
      if (error instanceof HoldfastError) throw error;
      if (isErrno(error, 'ENOENT')) return abnormal('The directory is missing.');
      return abnormal('The directory cannot be read; see the kernel log of the node.');
    }
  }

  /** No server tells what a directory may take. */
  async sizeOf(): Promise<bigint | undefined> {
    return undefined;
  }

  async grow(): Promise<void> {}

  async destroy(ref: TrashRef): Promise<void> {
    if (!(await this.#keep(ref))) await removeDirectory(this.parts.queue, ref);
  }

  /** @returns whether it is not to be removed, and is where the pool has no more to do with it */
  async #keep(ref: TrashRef): Promise<boolean> {
    const { layout, queue } = this.parts;
    const id = parseVolumeId(basename(ref).split('.')[0] ?? '');
    if (id === undefined || dirname(ref) !== layout.trash) return false;
    const record = await this.#recordIn(ref);
    await this.#releaseName(record);
    const onDelete = record === undefined ? this.parts.onDelete : onDeleteOf(record, this.parts.onDelete);
    if (onDelete === 'delete') return false;
    const [directory, name] = keptName(onDelete, record ?? { id, name: id, parameters: {} });
    const kept = join(layout.root, directory);
    await queue.run(() => mkdir(kept, { recursive: true, mode: 0o700 }));
    // Under the same id one may be there from before.
    const moved = await queue
      .run(() => rename(ref, join(kept, `${name}${basename(ref).slice(id.length)}`)))
      .then(() => true, ignoreMissing);
    if (moved === true) await syncDirectory(queue, kept);
    return true;
  }

  async #releaseName(record: VolumeRecord | undefined): Promise<void> {
    const { exported, names } = this.parts;
    if (record?.parameters['subDir'] === undefined) return;
    let name: string | undefined;
    try {
      name = readNfsParameters(record.parameters, exported).name;
    } catch (error) {
      // The pool moved to another server: the name is found again as long as that says nothing about it.
      if (!(error instanceof InvalidArgument)) throw error;
    }
    if (name !== undefined) await names.release(name, record.id);
  }

  async #recordIn(ref: TrashRef): Promise<VolumeRecord | undefined> {
    const path = join(ref, 'volume.json');
    const text = await readIfThere(this.parts.queue, path);
    try {
      return text === undefined ? undefined : parseRecord(text, path);
    } catch {
      return undefined;
    }
  }
}

function onDeleteOf({ parameters }: VolumeRecord, otherwise: OnDelete): OnDelete {
  return onDeletes.find((each) => each === parameters['onDelete']) ?? otherwise;
}
