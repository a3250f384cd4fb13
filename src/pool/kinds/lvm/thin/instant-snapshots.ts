import { type DeviceMapper, type MappedState, mappedDevice } from '../../../../kernel/block/device-mapper.ts';
import { parseThinNumber } from '../../../../kernel/block/thin-status.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { sameDevice } from '../../../../kernel/device.ts';
import { Aborted, InternalError } from '../../../../volume/errors.ts';
import { step } from '../../../../volume/step.ts';
import { longestFreezeMs } from '../../../freeze/freezer.ts';
import type { PoolLog } from '../../../log.ts';
import { familyTagOf } from '../group/families.ts';
import type { OwnLv } from '../group/group-state.ts';
import type { ThinPool } from './thin-pool.ts';

const snapshotsAtOnce = 4;

/**
 * Snapshots of thin volumes in use, past LVM. LVM takes one at a time, needs a commit of its group for it while writers wait, and
 * cannot where a filesystem is frozen already (before Linux 6.8): so several volumes would have no instant in common. Here
 * LVM makes a blank volume, which gives a name and a number. The kernel's thin pool gets the order to forget that number, and
 * then, while the source is suspended, to put a snapshot there: that takes milliseconds.
 */
export class InstantSnapshots {
  readonly #pool: ThinPool;
  readonly #mapper: DeviceMapper;
  readonly #queue: DiskQueue;
  /** A separate queue: to resume a device never waits for a request that waits for that device. */
  readonly #resumeQueue: DiskQueue;
  readonly #log: PoolLog;

  constructor(
    pool: ThinPool,
    mapper: DeviceMapper,
    { log, queue }: { readonly log: PoolLog; readonly queue: DiskQueue },
  ) {
    this.#pool = pool;
    this.#mapper = mapper;
    this.#log = log;
    this.#queue = queue.beside('instant', snapshotsAtOnce);
    this.#resumeQueue = queue.beside('resume', snapshotsAtOnce);
  }

  /**
   * Makes a logical volume whose number in the thin pool is free: it cannot be activated before `take`. Cut short, it is a draft,
   * and LVM removes it as any other.
   * @returns its number
   */
  async prepare(from: OwnLv, lvName: string, tags: readonly string[]): Promise<bigint> {
    await this.#pool.create(lvName, await this.#sizeOf(from), tags, familyTagOf(from));
    const number = await this.#numberOf(lvName, this.#active(lvName));
    await this.#removeDevice(lvName);
    await step('instant/forget', () => this.#pool.tell(`delete ${number}`));
    return number;
  }

  /**
   * Puts a snapshot of the source, as it is now, under that number. Durable at its end.
   * @param signal aborted when writers have waited for too long: they are resumed, and the snapshots have no common instant
   * @throws Aborted if they have waited for too long here
   */
  async take(from: OwnLv, lvName: string, number: bigint, signal: AbortSignal | undefined): Promise<void> {
    const source = this.#active(from.name);
    this.#refuseOtherSize(from, lvName, source);
    const message = `create_snap ${number} ${await this.#numberOf(from.name, source)}`;
    signal?.throwIfAborted();
    const late = new AbortController();
    // The result is checked below.
    const goOn = () => void this.#resume(source).catch(() => undefined);
    late.signal.addEventListener('abort', goOn, { once: true });
    const stop = () => late.abort(signal?.reason);
    signal?.addEventListener('abort', stop, { once: true });
    // A volume without a filesystem of ours is not frozen first, so no other timer watches it.
    const timer = setTimeout(() => late.abort(tookTooLong()), longestFreezeMs);
    this.#pool.group.suspending.add(source.name);
    try {
      // A write while the kernel makes a snapshot would be in it or not, by chance (thin-provisioning.rst).
      await step('instant/suspend', () => this.#mapper.suspend(this.#queue, source.device));
      late.signal.throwIfAborted();
      await step('instant/take', () => this.#pool.tell(message));
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
      late.signal.removeEventListener('abort', goOn);
      this.#pool.group.suspending.delete(source.name);
      await this.#resume(source);
    }
    late.signal.throwIfAborted();
    await this.#pool.requireWritable();
    await this.#pool.ownsAsMuch(lvName, from.name);
  }

  /** Works in any state of the disk: it needs none. */
  async #resume({ device, name }: MappedState): Promise<void> {
    const resume = (queue: DiskQueue) => this.#mapper.resume(queue, device);
    const queue = this.#resumeQueue;
    try {
      await step('instant/resume', () =>
        queue.rescue(resume).catch((error) => {
          if (queue.closedFor === undefined) throw error;
          // The pool was given up meanwhile. Twice is as well as once.
          return queue.rescue(resume);
        }),
      );
    } catch (error) {
      this.#log.error(
        { pool: this.#pool.group.poolName, device: name, err: error },
        'cannot resume a device: its users wait for dmsetup resume',
      );
      throw error;
    }
  }

  #active(lvName: string): MappedState {
    const { group } = this.#pool;
    const mapped = group.deviceOf(lvName);
    if (mapped !== undefined) return mapped;
    throw new InternalError(`logical volume ${group.name}/${lvName} was in use, and is not active any more.`);
  }

  /** It may have been made larger by hand, and its filesystem too. */
  async #sizeOf(from: OwnLv): Promise<bigint> {
    const { group } = this.#pool;
    if (bytesOf(this.#active(from.name)) === from.sizeBytes) return from.sizeBytes;
    await group.refresh();
    return group.get(from.name)?.sizeBytes ?? from.sizeBytes;
  }

  /** A snapshot with less in it would be of no use. @throws Aborted */
  #refuseOtherSize(from: OwnLv, lvName: string, source: MappedState): void {
    const { group } = this.#pool;
    const roomBytes = group.get(lvName)?.sizeBytes ?? 0n;
    if (bytesOf(source) <= roomBytes) return;
    throw new Aborted(
      `logical volume ${group.name}/${from.name} has become larger than its planned snapshot (${roomBytes} bytes). Try again.`,
    );
  }

  /** The kernel's number. */
  async #numberOf(lvName: string, { device }: MappedState): Promise<bigint> {
    const { group } = this.#pool;
    const table = await this.#mapper.table(this.#queue, device);
    const number = table && parseThinNumber(table);
    if (number === undefined || !sameDevice(number.poolDevice, this.#pool.device)) {
      throw new InternalError(`logical volume ${group.name}/${lvName} does not lie in the pool's thin pool.`);
    }
    return number.thinId;
  }

  /** Not by LVM, which would take as long as it took to make it. */
  async #removeDevice(lvName: string): Promise<void> {
    const { group } = this.#pool;
    await group.removeDevice(this.#queue, lvName);
    // For example, udev has a look at it: LVM waits for that.
    if (group.deviceOf(lvName) !== undefined) await group.deactivate([lvName]);
  }
}

function bytesOf({ device }: MappedState): bigint {
  return mappedDevice(device)?.sizeBytes ?? 0n;
}

function tookTooLong(): Aborted {
  const seconds = longestFreezeMs / 1000;
  return new Aborted(
    `The snapshot was given up: it took longer than ${seconds} s, and writers wait meanwhile. Try again.`,
  );
}
