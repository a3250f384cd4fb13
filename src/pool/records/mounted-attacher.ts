import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { Attacher } from '../backend.ts';
import type { Attached, Attachment, Seen, SeenVolume } from '../pool.ts';
import type { FileParts } from './file-store.ts';

/**
 * Attaches volumes that are directories: what keeps one in use is its mounts. The kernel's table tells them without asking
 * the disk.
 */
export abstract class MountedAttacher<Parts extends FileParts> implements Attacher {
  readonly rescue: Attacher['rescue'];
  protected readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
    this.rescue = {
      attached: (id) => parts.queue.rescue((queue) => this.#attached(queue, id)),
      detach: () => this.detach(),
      volumeSeen: (seen) => this.volumeSeen(seen),
    };
  }

  abstract attach(record: VolumeRecord): Promise<Attachment>;

  /** Which volume of the pool is mounted there, known to its records or not. */
  protected abstract volumeAt(mount: NonNullable<Seen['mount']>): SeenVolume | undefined;

  protected abstract attachedAs(id: VolumeId): Attached;

  attached(id: VolumeId): Promise<Attached[]> {
    return this.#attached(this.parts.queue, id);
  }

  inUse(id: VolumeId): Promise<readonly Attached[]> {
    return this.attached(id);
  }

  /** It ends with its last mount. */
  async detach(): Promise<void> {}

  async volumeSeen({ mount }: Seen): Promise<SeenVolume | undefined> {
    return mount === undefined ? undefined : this.volumeAt(mount);
  }

  async all(): Promise<Attached[]> {
    const ids = await this.#counts(this.parts.queue);
    return Array.from(ids.keys(), (id) => this.attachedAs(id));
  }

  counts(): Promise<ReadonlyMap<VolumeId, number>> {
    return this.#counts(this.parts.queue);
  }

  async detachOrphans(): Promise<VolumeId[]> {
    return [];
  }

  async #attached(queue: DiskQueue, id: VolumeId): Promise<Attached[]> {
    return (await this.#counts(queue)).has(id) ? [this.attachedAs(id)] : [];
  }

  async #counts(queue: DiskQueue): Promise<Map<VolumeId, number>> {
    const counts = new Map<VolumeId, number>();
    for (const mount of await readMountTable(queue)) {
      const id = this.volumeAt(mount)?.id;
      if (id !== undefined) counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    return counts;
  }
}
