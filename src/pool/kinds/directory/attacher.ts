import { relative } from 'node:path';
import { sameDevice } from '../../../kernel/block/device.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { openDirectory } from '../../../kernel/file/path.ts';
import type { FilesystemPlace } from '../../../kernel/mount/filesystem-place.ts';
import { type Mount, readMountTable } from '../../../kernel/mount/mount-table.ts';
import { mountsElsewhere } from '../../../kernel/process/mounts-elsewhere.ts';
import { DataLoss, Unavailable } from '../../../volume/errors.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { withTimeout } from '../../../volume/with-timeout.ts';
import type { Attacher } from '../../backend.ts';
import type { Attached, Attachment, Seen, SeenVolume } from '../../pool.ts';
import type { DirectoryParts } from './directory-backend.ts';

/**
 * A directory is reachable as it is: what keeps a volume in use is its mounts. The kernel's table tells them without
 * asking the disk.
 */
export class DirectoryAttacher implements Attacher {
  readonly rescue: Attacher['rescue'];
  readonly #parts: DirectoryParts;

  constructor(parts: DirectoryParts) {
    this.#parts = parts;
    this.rescue = {
      attached: (id) => parts.queue.rescue((queue) => this.#attached(queue, id)),
      detach: () => this.detach(),
      volumeSeen: (seen) => this.volumeSeen(seen),
    };
  }

  async attach({ id, sizeBytes }: VolumeRecord): Promise<Attachment> {
    const { handovers, layout, projects, queue } = this.#parts;
    const path = layout.data(id);
    await handovers.settled(id);
    // The limit may have been changed by hand.
    await projects?.limitIn(layout.volume(id), sizeBytes);
    try {
      const descriptor = await openDirectory(queue, path);
      return { kind: 'directory', path, descriptor, release: () => descriptor[Symbol.asyncDispose]() };
    } catch (error) {
      if (!isErrno(error, 'ENOENT', 'ENOTDIR')) throw error;
      throw new DataLoss(`volume ${id}: its directory ${path} is missing.`);
    }
  }

  attached(id: VolumeId): Promise<Attached[]> {
    return this.#attached(this.#parts.queue, id);
  }

  /** Counts mounts that the driver does not see, too: a container that lives on has them in its own namespace. */
  async inUse(id: VolumeId): Promise<readonly Attached[]> {
    await this.#parts.handovers.settled(id);
    const here = await this.attached(id);
    if (here.length > 0) return here;
    const mounts = await withTimeout(lookTimeoutMs, mountsElsewhere(id));
    if (mounts === 'late') {
      throw new Unavailable(`volume ${id}: there was no time to look whether a container has it mounted; try again.`);
    }
    const isMounted = mounts.some((mount) => volumeAt(this.#parts.place, mount)?.id === id);
    return isMounted ? [{ kind: 'directory', path: this.#parts.layout.data(id) }] : [];
  }

  /** It ends with its last mount. */
  async detach(): Promise<void> {}

  async volumeSeen({ mount }: Seen): Promise<SeenVolume | undefined> {
    return mount === undefined ? undefined : volumeAt(this.#parts.place, mount);
  }

  async all(): Promise<Attached[]> {
    const ids = await this.#counts(this.#parts.queue);
    return Array.from(ids.keys(), (id) => ({ kind: 'directory', path: this.#parts.layout.data(id) }));
  }

  counts(): Promise<ReadonlyMap<VolumeId, number>> {
    return this.#counts(this.#parts.queue);
  }

  async detachOrphans(): Promise<VolumeId[]> {
    return [];
  }

  async grown(): Promise<void> {}

  forget(): void {}

  async #attached(queue: DiskQueue, id: VolumeId): Promise<Attached[]> {
    const isAttached = (await this.#counts(queue)).has(id);
    return isAttached ? [{ kind: 'directory', path: this.#parts.layout.data(id) }] : [];
  }

  async #counts(queue: DiskQueue): Promise<Map<VolumeId, number>> {
    const counts = new Map<VolumeId, number>();
    for (const mount of await readMountTable(queue)) {
      const id = volumeAt(this.#parts.place, mount)?.id;
      if (id !== undefined) counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    return counts;
  }
}

/** A look takes a few milliseconds, but a node may have thousands of containers. */
const lookTimeoutMs = 20_000;

/** Where volumes lie below the pool's root (`Layout`), those on their way out too: `<id>.<random>`. */
const parents = ['volumes', 'trash'];

/** Which volume of the pool is mounted there, known to its records or not. */
function volumeAt(pool: FilesystemPlace, { device, root }: Pick<Mount, 'device' | 'root'>): SeenVolume | undefined {
  if (!sameDevice(device, pool.device)) return undefined;
  const [parent = '', name = '', data, ...below] = relative(pool.root, root).split('/');
  const id = parseVolumeId(name.split('.')[0] ?? '');
  if (id === undefined || data !== 'data' || !parents.includes(parent)) return undefined;
  return { id, isWhole: below.length === 0 };
}
