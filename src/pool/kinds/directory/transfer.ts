import { constants } from 'node:fs';
import { mkdir, readFile, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { emptyDirectory } from '../../../kernel/file/tree-removal.ts';
import { DataLoss } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { treeCopyBytes } from '../../../volume/size.ts';
import type { IncomingRoom, IncomingTreeDraft, Provisioner, Recorded, Transfer } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import { replaceFile } from '../../records/durable-file.ts';
import { isThere } from '../../records/gone.ts';
import { refuseMountsInside } from '../../records/mounts-inside.ts';
import { FileMarks, moveMarkName } from '../../records/move-marks.ts';
import type { DirectoryParts } from './directory-backend.ts';
import { DirectoryVolumeDraft, makeData } from './drafts.ts';

/** Directories that move into other pools, or come from there. */
export class DirectoryTransfer extends FileMarks implements Transfer {
  readonly #parts: DirectoryParts;
  readonly #drafts: Pick<Provisioner, 'discardDrafts'>;

  constructor(parts: DirectoryParts, drafts: Pick<Provisioner, 'discardDrafts'>) {
    super(parts);
    this.#parts = parts;
    this.#drafts = drafts;
  }

  async read({ kind, record }: Recorded): Promise<Descriptor> {
    const { layout, queue } = this.#parts;
    const path = layout.dataOf(record.id);
    await refuseMountsInside(queue, path, `${kind} ${record.id}`);
    try {
      return await openTree(this.#parts, path);
    } catch (error) {
      if (!isErrno(error, 'ENOENT', 'ENOTDIR')) throw error;
      throw new DataLoss(`${kind} ${record.id}: its directory ${path} is missing.`);
    }
  }

  incoming(id: VolumeId): IncomingTreeDraft {
    return new IncomingDirectory(this.#parts, this.#drafts, id);
  }
}

function openTree({ queue }: DirectoryParts, path: string): Promise<Descriptor> {
  return openFile(queue, path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
}

/** The name in a draft's directory of the note about its content. */
const noteName = 'incoming.json';
const linksName = 'links';

/** A directory on its way from another pool: a draft with a persistent name. */
class IncomingDirectory implements IncomingTreeDraft {
  readonly kind = 'tree';
  readonly #parts: DirectoryParts;
  readonly #drafts: Pick<Provisioner, 'discardDrafts'>;
  readonly #draft: DirectoryVolumeDraft;
  #limitBytes = 0n;

  constructor(parts: DirectoryParts, drafts: Pick<Provisioner, 'discardDrafts'>, id: VolumeId) {
    this.#parts = parts;
    this.#drafts = drafts;
    this.#draft = new DirectoryVolumeDraft(parts, id, true);
  }

  get limitBytes(): bigint {
    return this.#limitBytes;
  }

  async begin({ sizeBytes }: IncomingRoom): Promise<void> {
    const { layout, queue, syncs } = this.#parts;
    const { data, directory } = this.#draft;
    await this.#draft.begin();
    // With a note it is whole; one without is never met here again.
    if (!(await isThere(queue, data))) await makeData(this.#parts, directory, treeCopyBytes(sizeBytes));
    await this.resize(sizeBytes);
    await queue.run(() => mkdir(this.#path(linksName), { mode: 0o700, recursive: true }));
    await syncs.sync(queue, directory);
    await syncs.sync(queue, layout.drafts);
  }

  async resize(sizeBytes: bigint): Promise<void> {
    this.#limitBytes = treeCopyBytes(sizeBytes);
    await this.#parts.projects?.limitIn(this.#draft.directory, this.#limitBytes);
  }

  open(): Promise<Descriptor> {
    return openTree(this.#parts, this.#draft.data);
  }

  openLinks(): Promise<Descriptor> {
    return openTree(this.#parts, this.#path(linksName));
  }

  async readNote(): Promise<string | undefined> {
    return this.#parts.queue.run(() => readFile(this.#path(noteName), 'utf8')).catch(ignoreMissing);
  }

  async writeNote(text: string): Promise<void> {
    const { queue, syncs } = this.#parts;
    await replaceFile(queue, syncs, this.#path(noteName), text);
  }

  async takenBytes(): Promise<bigint> {
    const { layout, projects } = this.#parts;
    const place = this.#draft.isCommitted ? layout.volume(this.#draft.id) : this.#draft.directory;
    return (await projects?.usageIn(place))?.usedBytes ?? 0n;
  }

  async complete(record: VolumeRecord, mark: string): Promise<void> {
    const { projects, queue, syncs } = this.#parts;
    const { directory } = this.#draft;
    await emptyDirectory(queue, this.#path(linksName), () => false).catch(ignoreMissing);
    await queue.run(() => rmdir(this.#path(linksName))).catch(ignoreMissing);
    await projects?.limitIn(directory, record.sizeBytes);
    await replaceFile(queue, syncs, this.#path(moveMarkName), mark);
    await this.#draft.writeRecord(record);
    await syncs.sync(queue, directory);
  }

  async commit(): Promise<void> {
    await this.#draft.commit();
  }

  /** The name is free at once: the next move must not meet the data of this one. */
  async discard(): Promise<TrashRef[]> {
    return this.#drafts.discardDrafts(new Set([this.#draft.id]));
  }

  async forgetNote(): Promise<void> {
    const { layout, queue } = this.#parts;
    await queue.run(() => unlink(join(layout.volume(this.#draft.id), noteName))).catch(ignoreMissing);
  }

  #path(name: string): string {
    return join(this.#draft.directory, name);
  }
}
