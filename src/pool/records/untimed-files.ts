import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { setTimesToNow } from '../../kernel/file/entry.ts';
import type { DirectorySync } from '../../kernel/file/file.ts';
import { reopenUntimed } from '../../kernel/file/untimed.ts';
import { parseVolumeId, type VolumeId } from '../../volume/id.ts';
import type { Layout } from './layout.ts';

const stampIntervalMs = 60_000;

/**
 * Files of volumes that are opened so that no write changes their times. The times are set once a minute instead, and once
 * after the last write: programs that save the files of a pool go by them.
 */
export class UntimedFiles {
  readonly #layout: Layout;
  readonly #syncs: DirectorySync;
  readonly #attached: () => Promise<ReadonlyMap<string, number>>;
  /** Volumes that have had a device since the last time. Devices of a driver before this one show the others. */
  #ids = new Set<VolumeId>();
  #stampedMs = Number.NEGATIVE_INFINITY;

  /** @param attached the volumes that have a device */
  constructor(layout: Layout, syncs: DirectorySync, attached: () => Promise<ReadonlyMap<string, number>>) {
    this.#layout = layout;
    this.#syncs = syncs;
    this.#attached = attached;
  }

  /** @returns undefined if the filesystem has no way to leave times alone */
  async reopen(queue: DiskQueue, id: VolumeId, file: Descriptor): Promise<Descriptor | undefined> {
    const reopened = await reopenUntimed(queue, await this.#syncs.kept(queue, this.#layout.volumes), file);
    if (reopened !== undefined) this.#ids.add(id);
    return reopened;
  }

  /** Sets the times: once a minute at most, unless `now`. */
  async stamp(queue: DiskQueue, when: 'due' | 'now' = 'due'): Promise<void> {
    const nowMs = performance.now();
    if (when === 'due' && nowMs - this.#stampedMs < stampIntervalMs) return;
    this.#stampedMs = nowMs;
    const before = this.#ids;
    this.#ids = new Set();
    // Read first: a file that has no device any more is not written after this.
    const attached = await this.#attached();
    const stillAttached = [...attached.keys()].flatMap((id) => parseVolumeId(id) ?? []);
    for (const id of stillAttached) this.#ids.add(id);
    await Promise.all(
      [...new Set([...before, ...stillAttached])].map((id) =>
        setTimesToNow(queue, this.#layout.data(id)).catch(ignoreMissing),
      ),
    );
  }
}
