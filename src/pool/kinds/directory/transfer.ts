import { constants } from 'node:fs';
import { mkdir, rmdir } from 'node:fs/promises';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { emptyDirectory } from '../../../kernel/file/tree-removal.ts';
import { DataLoss } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { treeCopyBytes } from '../../../volume/size.ts';
import type { IncomingRoom, IncomingTreeDraft, Provisioner, Recorded, Transfer } from '../../backend.ts';
import { isThere } from '../../records/gone.ts';
import { IncomingFileDraft, incomingVolumeIds } from '../../records/incoming-draft.ts';
import { refuseMountsInside } from '../../records/mounts-inside.ts';
import { FileMarks } from '../../records/move-marks.ts';
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

  incomingVolumes(): Promise<readonly VolumeId[]> {
    return incomingVolumeIds(this.#parts);
  }
}

function openTree({ queue }: DirectoryParts, path: string): Promise<Descriptor> {
  return openFile(queue, path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
}

/** The name in a draft's directory of that with the entries that wait for more names. */
const linksName = 'links';

/** A directory on its way from another pool. */
class IncomingDirectory extends IncomingFileDraft<DirectoryParts> implements IncomingTreeDraft {
  readonly kind = 'tree';
  #limitBytes = 0n;

  constructor(parts: DirectoryParts, drafts: Pick<Provisioner, 'discardDrafts'>, id: VolumeId) {
    super(parts, new DirectoryVolumeDraft(parts, id, true), drafts);
  }

  get limitBytes(): bigint {
    return this.#limitBytes;
  }

  async begin({ sizeBytes }: IncomingRoom): Promise<void> {
    const { queue } = this.parts;
    const { data, directory } = this.draft;
    await this.draft.begin();
    // With a note it is whole; one without is never met here again.
    if (!(await isThere(queue, data))) await makeData(this.parts, directory, treeCopyBytes(sizeBytes));
    await this.resize(sizeBytes);
    await queue.run(() => mkdir(this.pathOf(linksName), { mode: 0o700, recursive: true }));
    await this.syncBegun();
  }

  async resize(sizeBytes: bigint): Promise<void> {
    this.#limitBytes = treeCopyBytes(sizeBytes);
    await this.parts.projects?.limitIn(this.draft.directory, this.#limitBytes);
  }

  open(): Promise<Descriptor> {
    return openTree(this.parts, this.draft.data);
  }

  openLinks(): Promise<Descriptor> {
    return openTree(this.parts, this.pathOf(linksName));
  }

  async takenBytes(): Promise<bigint> {
    const { layout, projects } = this.parts;
    const place = this.draft.isInPlace ? layout.volume(this.draft.id) : this.draft.directory;
    return (await projects?.usageIn(place))?.usedBytes ?? 0n;
  }

  async complete(record: VolumeRecord, mark: string): Promise<void> {
    const { projects, queue } = this.parts;
    await emptyDirectory(queue, this.pathOf(linksName), () => false).catch(ignoreMissing);
    await queue.run(() => rmdir(this.pathOf(linksName))).catch(ignoreMissing);
    await projects?.limitIn(this.draft.directory, record.sizeBytes);
    await this.writeRecords(record, mark);
  }
}
