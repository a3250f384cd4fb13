import { statfs } from 'node:fs/promises';
import { deviceSizeBytes } from '../../kernel/block/block.ts';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { silentAfterMs, silentCondition } from '../../pool/condition.ts';
import type { Condition, QuotaUsage } from '../../pool/pool.ts';
import { Unavailable } from '../../volume/errors.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { VolumeHandle } from '../../volume/handle.ts';
import type { NodeContext } from '../context.ts';
import { filesystemCondition } from './condition.ts';
import { type Located, locate } from './locate.ts';

/** Numbers of one kind; only the known ones (VS06). */
export interface Usage {
  readonly unit: 'BYTES' | 'INODES';
  readonly total: bigint;
  readonly used?: bigint;
  readonly available?: bigint;
}

export interface VolumeStats {
  readonly usage: readonly Usage[];
  readonly condition: Condition;
}

const silent: VolumeStats = { usage: [], condition: silentCondition };

/** The answer of NodeGetVolumeStats. Never waits for a disk that hangs (VS08). */
export class StatsReader {
  readonly #context: NodeContext;
  /** A question that hangs is asked once: later callers wait for the same answer, as long as they like to. */
  readonly #asked = new Map<string, Promise<VolumeStats>>();

  constructor(context: NodeContext) {
    this.#context = context;
  }

  /** @throws NotFound if the volume is not at the path */
  async read(id: VolumeHandle, path: string): Promise<VolumeStats> {
    const answer = await withTimeout(silentAfterMs, this.#ask(id, path));
    if (answer !== 'late') return answer;
    // The object at the path cannot be examined now. If the volume is in use here, it is its disk that is silent.
    const notes = await this.#context.notes();
    if (notes.read(id) !== undefined) return silent;
    throw new Unavailable(`volume ${id}: whether it is at that path cannot be found out, as a disk does not answer.`);
  }

  #ask(id: VolumeHandle, path: string): Promise<VolumeStats> {
    const key = `${id} ${path}`;
    const pending = this.#asked.get(key);
    if (pending !== undefined) return pending;
    const answer = measure(this.#context, id, path).finally(() => this.#asked.delete(key));
    this.#asked.set(key, answer);
    return answer;
  }
}

async function measure(context: NodeContext, id: VolumeHandle, path: string): Promise<VolumeStats> {
  using located = await locate(context, path, id);
  const { owner } = located.mounted;
  const queue = owner?.access?.queue ?? context.queue;
  const [usage, own] = await Promise.all([
    measureUsage(queue, located).catch(() => undefined),
    filesystemCondition(context.queue, located),
  ]);
  // Asked last: what it says of a disk that hung must not outlast that.
  const { condition: pools, isSick } = await context.volumes.conditionOf(owner);
  // Its pool's sickness is the cause of all others.
  if (isSick) return { usage: [], condition: pools };
  if (own.abnormal) return { usage: usage ?? [], condition: own };
  // The cause, if it is known.
  if (usage === undefined) return { usage: [], condition: pools.abnormal ? pools : unreadable };
  return { usage, condition: pools };
}

const unreadable: Condition = {
  abnormal: true,
  message: 'The volume answers with errors; see the kernel log of the node.',
};

async function measureUsage(queue: DiskQueue, { handle, mounted }: Located): Promise<readonly Usage[]> {
  if (mounted.access === 'block') return deviceUsage(queue, handle.descriptor);
  const quota = await mounted.owner.access?.quotaUsage();
  return quota === undefined ? filesystemUsage(queue, handle.descriptor) : usageOf(quota);
}

function usageOf({ bytes, inodes }: QuotaUsage): readonly Usage[] {
  const usage: Usage = { unit: 'BYTES', ...bytes };
  return inodes === undefined ? [usage] : [usage, { unit: 'INODES', ...inodes }];
}

async function deviceUsage(queue: DiskQueue, device: Descriptor): Promise<readonly Usage[]> {
  return [{ unit: 'BYTES', total: await deviceSizeBytes(queue, device) }];
}

async function filesystemUsage(queue: DiskQueue, file: Descriptor): Promise<readonly Usage[]> {
  const { bavail, bfree, blocks, bsize, ffree, files } = await queue.run(() =>
    file.during((path) => statfs(path, { bigint: true })),
  );
  const bytes: Usage = {
    unit: 'BYTES',
    total: blocks * bsize,
    used: (blocks - bfree) * bsize,
    available: bavail * bsize,
  };
  // btrfs makes inodes as it needs them and counts none.
  return files === 0n ? [bytes] : [bytes, { unit: 'INODES', total: files, used: files - ffree, available: ffree }];
}
