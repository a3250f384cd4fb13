import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { type Mount, readMountTable } from '../../../kernel/mount/mount-table.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Attacher } from '../../backend.ts';
import type { Attached, Attachment, Seen, SeenVolume } from '../../pool.ts';
import { attachNfs, mountableOf } from './attachment.ts';
import type { NfsParts } from './backend.ts';
import { nfsByName } from './by-name.ts';
import { type NfsContext, sourceOf } from './context.ts';

/** A directory on NFS is mounted where it is used: what keeps it in use here is the kernel's table of mounts. */
export class NfsAttacher implements Attacher {
  readonly rescue: Attacher['rescue'];
  readonly #parts: NfsParts;
  /** Where volumes lie, as the kernel names the source of a mount there. */
  readonly #volumes: string;

  constructor(parts: NfsParts) {
    this.#parts = parts;
    const { directory, exported } = parts;
    this.#volumes = sourceOf({ exported, directory: `${directory}/volumes` });
    this.rescue = {
      attached: (id) => parts.queue.rescue((queue) => this.#attached(queue, id)),
      detach: () => this.detach(),
      volumeSeen: (seen) => this.volumeSeen(seen),
    };
  }

  async attach({ id }: VolumeRecord): Promise<Attachment> {
    return attachNfs(this.#parts, this.#volume(id), `volume ${id}`);
  }

  attached(id: VolumeId): Promise<Attached[]> {
    return this.#attached(this.#parts.queue, id);
  }

  inUse(id: VolumeId): Promise<readonly Attached[]> {
    return this.attached(id);
  }

  /** It ends with its last mount. */
  async detach(): Promise<void> {}

  async volumeSeen({ mount }: Seen): Promise<SeenVolume | undefined> {
    return mount === undefined ? undefined : this.#volumeAt(mount);
  }

  async all(): Promise<Attached[]> {
    const ids = [...(await this.#counts(this.#parts.queue)).keys()];
    return ids.map((id) => mountableOf(this.#volume(id)));
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
    return (await this.#counts(queue)).has(id) ? [mountableOf(this.#volume(id))] : [];
  }

  #volume(id: VolumeId): NfsContext {
    const { directory, exported, options } = this.#parts;
    return { exported, options, mode: undefined, directory: `${directory}/volumes/${id}/data` };
  }

  async #counts(queue: DiskQueue): Promise<Map<VolumeId, number>> {
    const counts = new Map<VolumeId, number>();
    for (const mount of await readMountTable(queue)) {
      const id = this.#volumeAt(mount)?.id;
      if (id !== undefined) counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    return counts;
  }

  /** Which volume of the pool is mounted there, known to its records or not. */
  #volumeAt(mount: Pick<Mount, 'device' | 'fsType' | 'root' | 'source'>): SeenVolume | undefined {
    return mount.source.startsWith(`${this.#volumes}/`) ? nfsByName({ device: undefined, mount }) : undefined;
  }
}
