import { setTimeout as delay } from 'node:timers/promises';
import { explain } from '../../kernel/call/explain.ts';
import { sameDevice } from '../../kernel/device.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import type { NfsServer } from '../../kernel/nfs/server.ts';
import { isAnswering, isNfs, serverOfMount } from '../../kernel/nfs/unmount.ts';
import type { VolumeHandle } from '../../volume/handle.ts';
import type { NodeContext } from '../context.ts';

/** Structurally a pino logger. */
export interface StagesLog {
  warn(fields: Record<string, unknown>, message: string): void;
}

export interface SilentStagesOptions {
  readonly context: NodeContext;
  readonly log: StagesLog;
  /** NodeUnstageVolume, in its turn among the calls for the volume. */
  readonly unstage: (volumeId: VolumeHandle, stagingPath: string) => Promise<void>;
  /** The pause between two questions to a server. */
  readonly askEveryMs?: number;
}

/** The number of questions without an answer, one after the other, that make a server silent. */
const questions = 3;

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
  /** The volumes that were left, each with the watch that counts. */
  readonly #left = new Map<VolumeHandle, object>();

  constructor(options: SilentStagesOptions) {
    this.#options = options;
  }

  /** A pod of this node does not use the volume any more. It may have been the last one. */
  left(volumeId: VolumeHandle): void {
    const watch = {};
    this.#left.set(volumeId, watch);
    void this.#watch(volumeId, () => this.#left.get(volumeId) === watch).finally(() => {
      if (this.#left.get(volumeId) === watch) this.#left.delete(volumeId);
    });
  }

  /** It is about to be used: a publish needs its stage, and may wait for the server. */
  used(volumeId: VolumeHandle): void {
    this.#left.delete(volumeId);
  }

  /** Ends with the stage. */
  async #watch(volumeId: VolumeHandle, isLeft: () => boolean): Promise<void> {
    const { askEveryMs = 10_000, log, unstage } = this.#options;
    let unanswered = 0;
    for (;;) {
      await delay(askEveryMs, undefined, { ref: false });
      if (!isLeft()) return;
      const staged = await this.#stagedAlone(volumeId).catch(() => undefined);
      if (staged === undefined) return;
      unanswered = (await isAnswering(staged.server)) ? 0 : unanswered + 1;
      if (unanswered < questions || !isLeft()) continue;
      unanswered = 0;
      const fields = { volume_id: volumeId, server: staged.server.host };
      log.warn(fields, 'an NFS server does not answer, and no pod of this node uses the volume: it is unmounted');
      await unstage(volumeId, staged.path).catch((error: unknown) => {
        log.warn({ ...fields, reason: explain(error) }, 'a volume without a server could not be unmounted');
      });
    }
  }

  /** The stage of a volume on NFS that is mounted nowhere else on this node. */
  async #stagedAlone(volumeId: VolumeHandle): Promise<Staged | undefined> {
    const { context } = this.#options;
    const path = (await context.notes()).read(volumeId)?.path;
    if (path === undefined) return undefined;
    const table = await readMountTable(context.queue);
    const mount = table.findLast(({ target }) => target === path);
    const server = mount !== undefined && isNfs(mount) ? serverOfMount(mount) : undefined;
    if (mount === undefined || server === undefined) return undefined;
    const isElsewhere = table.some(
      ({ device, id, root }) => id !== mount.id && root === mount.root && sameDevice(device, mount.device),
    );
    return isElsewhere ? undefined : { path, server };
  }
}
