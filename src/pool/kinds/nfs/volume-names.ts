import { lstat, mkdir, readlink, rename, rmdir, symlink, unlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { syncDirectory } from '../../../kernel/file/file.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { TurnsByKey } from '../../../volume/flow/turns.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import { step } from '../../../volume/step.ts';
import type { Layout } from '../../records/layout.ts';

/** Directory in the pool's own with the names that people gave to volumes. Made when it is first needed. */
const namesName = 'names';

/**
 * Names of volumes, for people at the server: links to the directories of volumes, at paths that classes choose (`subDir`).
 * Nodes do not need them. A name belongs to the volume that it leads to for as long as that exists; one that leads nowhere is free.
 */
export class VolumeNames {
  readonly #queue: DiskQueue;
  readonly #layout: Layout;
  readonly #root: string;
  /** One home has the pool: what it looks at here stays so for its turn. */
  readonly #turns = new TurnsByKey<'names'>();

  constructor(queue: DiskQueue, layout: Layout) {
    this.#queue = queue;
    this.#layout = layout;
    this.#root = join(layout.root, namesName);
  }

  /**
   * Gives a name to a volume that does not exist yet, and makes it exist. If it dies in between, the name leads nowhere, and is free.
   * @param name a path of checked form: no step of it leads up
   * @throws FailedPrecondition if another volume has the name, or a part of it
   */
  take(name: string, id: VolumeId, commit: () => Promise<void>): Promise<void> {
    return this.#turns.run('names', async () => {
      await this.requireFree(name, id);
      await step('create/name', () => this.#link(name, id));
      await commit();
    });
  }

  /** @throws FailedPrecondition */
  async requireFree(name: string, id: VolumeId): Promise<void> {
    const steps = name.split('/');
    for (const [index] of steps.entries()) {
      const part = steps.slice(0, index + 1).join('/');
      const path = join(this.#root, part);
      const status = await this.#queue.run(() => lstat(path)).catch(ignoreMissing);
      if (status === undefined) return;
      const isLast = index + 1 === steps.length;
      if (!isLast && status.isDirectory()) continue;
      const owner = status.isSymbolicLink() ? await this.#ownerOf(path) : undefined;
      // A free name may be taken; a link is never followed.
      if (isLast && owner === 'none') return;
      if (owner === id) return;
      const has = owner === undefined || owner === 'none' ? 'is there already' : `is the name of volume ${owner}`;
      throw new FailedPrecondition(
        `volume ${id} cannot have the name ${name} (subDir): ${part} ${has} in ${namesName} of its pool. Let subDir have a name for each claim, such as \${pvc.metadata.namespace}/\${pvc.metadata.name}.`,
      );
    }
  }

  /** Takes the name from a volume that is gone, with the directories that nothing else is in. */
  async release(name: string, id: VolumeId): Promise<void> {
    await this.#turns.run('names', async () => {
      const path = join(this.#root, name);
      const found = await this.#queue.run(() => readlink(path)).catch(noLink);
      if (found === undefined || idIn(found) !== id) return;
      // It was made again under its id, or brought back.
      if ((await this.#ownerOf(path)) === id) return;
      await this.#queue.run(() => unlink(path)).catch(ignoreMissing);
      for (let directory = dirname(path); directory !== this.#root; directory = dirname(directory)) {
        const isGone = await this.#queue.run(() => rmdir(directory)).then(() => true, notEmpty);
        if (!isGone) return;
      }
    });
  }

  /** The volume that exists at the end of a link; none: it leads nowhere. undefined: it is none of ours. */
  async #ownerOf(path: string): Promise<VolumeId | 'none' | undefined> {
    const id = idIn(await this.#queue.run(() => readlink(path)));
    if (id === undefined) return undefined;
    const status = await this.#queue.run(() => lstat(this.#layout.volume(id))).catch(ignoreMissing);
    return status === undefined ? 'none' : id;
  }

  async #link(name: string, id: VolumeId): Promise<void> {
    const queue = this.#queue;
    const path = join(this.#root, name);
    const parent = dirname(path);
    await queue.run(() => mkdir(parent, { recursive: true, mode: 0o755 }));
    const draft = join(this.#layout.drafts, `${id}.name`);
    await queue.run(() => unlink(draft)).catch(ignoreMissing);
    // Relative: a person may look at it through another mount.
    await queue.run(() => symlink(relative(parent, this.#layout.data(id)), draft));
    await queue.run(() => rename(draft, path));
    await syncDirectory(queue, parent);
  }
}

/** The volume in the text of a link that the driver made. */
function idIn(link: string): VolumeId | undefined {
  const [, id = ''] = /\/volumes\/([^/]+)\/data$/.exec(link) ?? [];
  return parseVolumeId(id);
}

/** No name, or one that is no link. */
function noLink(error: unknown): undefined {
  if (!isErrno(error, 'ENOENT', 'ENOTDIR', 'EINVAL')) throw error;
}

function notEmpty(error: unknown): boolean {
  if (isErrno(error, 'ENOTEMPTY', 'EEXIST', 'ENOENT')) return false;
  throw error;
}
