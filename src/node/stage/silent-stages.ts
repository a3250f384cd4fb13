import { realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { explain } from '../../kernel/call/explain.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import type { NfsServer } from '../../kernel/nfs/server.ts';
import { isAnswering, isNfs, serverOfMount } from '../../kernel/nfs/unmount.ts';
import type { VolumeHandle } from '../../volume/handle.ts';
import type { NodeContext } from '../context.ts';
import { otherPaths, showsSameAs } from '../path/mounts.ts';

/** The means of what the node service does unasked. */
export interface Unasked {
  /** Structurally a pino logger. */
  readonly log: { warn(fields: Record<string, unknown>, message: string): void };
  readonly stopping: AbortSignal;
  /** Work that a stop waits for. */
  during<T>(work: () => Promise<T>): Promise<T>;
}

export interface SilentStagesOptions extends Unasked {
  readonly context: Pick<NodeContext, 'notes' | 'queue'>;
  /** NodeUnstageVolume, in its turn among the calls for the volume. */
  readonly unstage: (volumeId: VolumeHandle, stagingPath: string) => Promise<void>;
  /** The pause between two questions to a server. */
  readonly askEveryMs?: number;
}

/**
 * The number of questions without an answer, one after the other, that make a server silent. Each takes 12 s with its pause: five minutes.
 * A server that is restarted is back before; and a kubelet whose publish was refused has tried again, which it does every two minutes.
 */
const questions = 25;

interface Staged {
  readonly path: string;
  readonly server: NfsServer;
}

/**
 * The kubelet looks at the staging path (stat(2)) before it asks for the unstage. On NFS that look waits for the server: for ever if the
 * server is gone, and no unstage comes. So a volume that no pod of this node uses any more is unstaged here, as soon as its
 * server has been silent for a while. That ends the look, and the unstage that comes then finds nothing to do.
 */
export class SilentStages {
  readonly #options: SilentStagesOptions;
  /** The targets at which pods want a volume. A publish that failed is tried again, and needs the stage. */
  readonly #wanted = new Map<VolumeHandle, Set<string>>();
  /** The volumes that were left, each with the watch that counts. */
  readonly #left = new Map<VolumeHandle, object>();

  constructor(options: SilentStagesOptions) {
    this.#options = options;
  }

  /** A publish begins, or a stage. @param target undefined: of a stage */
  used(volumeId: VolumeHandle, target?: string): void {
    this.#left.delete(volumeId);
    if (target === undefined) return;
    const targets = this.#wanted.get(volumeId) ?? new Set();
    this.#wanted.set(volumeId, targets.add(target));
  }

  /** An unpublish has ended: perhaps the last one here. */
  left(volumeId: VolumeHandle, target: string): void {
    const targets = this.#wanted.get(volumeId);
    targets?.delete(target);
    if (targets !== undefined && targets.size > 0) return;
    this.#wanted.delete(volumeId);
    this.#begin(volumeId);
  }

  /**
   * After a start: volumes that an earlier driver has staged, and no pod uses. If a pod wants one of them, the kubelet asks for
   * its publish again, in less time than a server needs to become a silent one.
   */
  resume(): void {
    const { log, stopping } = this.#options;
    void this.#resume().catch((error: unknown) => {
      if (stopping.aborted) return;
      log.warn(
        { reason: explain(error) },
        'volumes that an earlier driver has staged are not watched for silent servers',
      );
    });
  }

  async #resume(): Promise<void> {
    const { notes, queue } = this.#options.context;
    const noted = (await notes()).staged();
    const table = await readMountTable(queue);
    if (!table.some(isNfs)) return;
    for (const volumeId of noted) {
      if (this.#wanted.has(volumeId) || this.#left.has(volumeId)) continue;
      // The directory of one may be gone: the others are watched.
      const staged = await this.#stagedAlone(volumeId, table).catch(() => undefined);
      if (staged !== undefined && !this.#wanted.has(volumeId)) this.#begin(volumeId);
    }
  }

  #begin(volumeId: VolumeHandle): void {
    const watch = {};
    const isLast = () => this.#left.get(volumeId) === watch;
    this.#left.set(volumeId, watch);
    void this.#watch(volumeId, isLast)
      .catch((error: unknown) => {
        if (!this.#options.stopping.aborted) this.#warn(volumeId, error);
      })
      .finally(() => isLast() && this.#left.delete(volumeId));
  }

  /** Ends with the stage. */
  async #watch(volumeId: VolumeHandle, isLeft: () => boolean): Promise<void> {
    const { askEveryMs = 10_000, during, log, stopping, unstage } = this.#options;
    let unanswered = 0;
    for (;;) {
      await delay(askEveryMs, undefined, { ref: false, signal: stopping });
      if (!isLeft()) return;
      // A look that fails is made again.
      const staged = await this.#stagedAlone(volumeId).catch(() => 'unknown' as const);
      if (staged === 'unknown') continue;
      if (staged === undefined) return;
      unanswered = (await isAnswering(staged.server)) ? 0 : unanswered + 1;
      if (unanswered < questions || !isLeft() || stopping.aborted) continue;
      unanswered = 0;
      const fields = { volume_id: volumeId, server: staged.server.host };
      log.warn(fields, 'an NFS server does not answer, and no pod of this node uses the volume: it is unmounted');
      await during(async () => unstage(volumeId, staged.path)).catch((error) => this.#warn(volumeId, error));
    }
  }

  #warn(volumeId: VolumeHandle, error: unknown): void {
    const fields = { volume_id: volumeId, reason: explain(error) };
    this.#options.log.warn(fields, 'a volume without a server could not be unmounted');
  }

  /** The stage of a volume on NFS that is mounted nowhere else on this node. @param seen the mounts, if they were just read */
  async #stagedAlone(volumeId: VolumeHandle, seen?: readonly Mount[]): Promise<Staged | undefined> {
    const { notes, queue } = this.#options.context;
    const path = (await notes()).read(volumeId)?.path;
    if (path === undefined) return undefined;
    // Its parent is the kubelet's, and waits for no server.
    const target = join(await queue.run(() => realpath(dirname(path))), basename(path));
    const table = seen ?? (await readMountTable(queue));
    const mount = table.findLast((each) => each.target === target);
    const server = mount !== undefined && isNfs(mount) ? serverOfMount(mount) : undefined;
    if (mount === undefined || server === undefined) return undefined;
    const elsewhere = otherPaths(table, showsSameAs(mount), { mounts: [mount] });
    return elsewhere.length > 0 ? undefined : { path, server };
  }
}
