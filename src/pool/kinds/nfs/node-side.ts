import { type Mount, readMountTable } from '../../../kernel/mount/mount-table.ts';
import { serverOf } from '../../../kernel/nfs/mount.ts';
import { isAnswering, isNfs, serverOfMount } from '../../../kernel/nfs/unmount.ts';
import { Unavailable } from '../../../volume/errors.ts';
import { abnormal } from '../../condition.ts';
import type { NodeSide, NodeSideContext, VolumeOnNode } from '../../node-side.ts';
import type { Attached, Attachment, Condition, QuotaUsage } from '../../pool.ts';
import { attachNfs, mountableOf } from './attachment.ts';
import { readNfsContext } from './context.ts';

interface Asked {
  readonly answer: Promise<boolean>;
  /** By `performance.now()`; undefined: the server has not answered yet. */
  endedMs: number | undefined;
}

/** Mounts the volumes of one NFS server on a node. */
export class NfsNodeSide implements NodeSide {
  readonly name: string;
  readonly #context: NodeSideContext;
  readonly #asked = new Map<string, Asked>();

  constructor(context: NodeSideContext) {
    this.#context = context;
    this.name = `NFS server ${context.server}`;
  }

  async attach({ context, handle }: VolumeOnNode): Promise<Attachment> {
    return attachNfs(this.#context, readNfsContext(context), `volume ${handle}`);
  }

  async attached(volume: VolumeOnNode): Promise<Attached[]> {
    const mount = await this.#mountOf(volume);
    return mount === undefined ? [] : [mountableOf(readNfsContext(volume.context))];
  }

  /** Asks the server first: statfs(2) waits for a server that is gone until it is back. */
  async quotaUsage(volume: VolumeOnNode): Promise<QuotaUsage | undefined> {
    if (await this.isAnswering(volume)) return undefined;
    throw new Unavailable(`volume ${volume.handle}: ${this.name} does not answer.`);
  }

  async condition(volume: VolumeOnNode): Promise<Condition> {
    if (await this.isAnswering(volume)) return { abnormal: false, message: 'The NFS server of this volume answers.' };
    return abnormal('The NFS server of this volume does not answer: its pods wait for it.');
  }

  /** Two questions within a second, as statistics ask them, have one answer: a silent server takes 2 s for each. */
  isAnswering(volume: VolumeOnNode): Promise<boolean> {
    const { answer, endedMs = performance.now() } = this.#asked.get(volume.handle) ?? {};
    if (answer !== undefined && performance.now() - endedMs < 1_000) return answer;
    const asked: Asked = { answer: this.#ask(volume), endedMs: undefined };
    this.#asked.set(volume.handle, asked);
    const forget = () => {
      asked.endedMs = performance.now();
      setTimeout(() => this.#asked.get(volume.handle) === asked && this.#asked.delete(volume.handle), 1_000).unref();
    };
    asked.answer.then(forget, forget);
    return asked.answer;
  }

  /** The port of a volume may be in its mount options, which only its mount has. */
  async #ask(volume: VolumeOnNode): Promise<boolean> {
    const mount = await this.#mountOf(volume);
    const { exported, options } = readNfsContext(volume.context);
    return isAnswering((mount && serverOfMount(mount)) ?? serverOf(exported, options));
  }

  async #mountOf({ context }: VolumeOnNode): Promise<Mount | undefined> {
    const { source } = mountableOf(readNfsContext(context));
    return (await readMountTable(this.#context.queue)).find((mount) => isNfs(mount) && mount.source === source);
  }
}
