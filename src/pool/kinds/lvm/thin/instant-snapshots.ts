import { sameDevice } from '../../../../kernel/block/device.ts';
import type { DeviceMapper, MappedState } from '../../../../kernel/block/device-mapper.ts';
import { parseThinBytes, parseThinNumber } from '../../../../kernel/block/thin-status.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { InternalError } from '../../../../volume/errors.ts';
import { step } from '../../../../volume/step.ts';
import type { PoolLog } from '../../../log.ts';
import type { OwnLv } from '../group-state.ts';
import { familyTagOf } from './families.ts';
import type { ThinPool } from './thin-pool.ts';

const snapshotsAtOnce = 4;

/**
 * Snapshots of thin volumes in use, past LVM. LVM takes one at a time, needs a commit of its group for it while writers wait, and
 * cannot where a filesystem is frozen already (before Linux 6.8): so several volumes would have no instant in common. Here
 * LVM makes a blank volume, and so has a name and a number for it. The kernel's thin pool is told to forget what has that number,
 * and then, while the source is suspended, to put a snapshot there: that takes milliseconds.
 */
export class InstantSnapshots {
  readonly #pool: ThinPool;
  readonly #mapper: DeviceMapper;
  readonly #queue: DiskQueue;
  /** Of its own: who resumes a device never waits for who waits for that device. */
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
    this.#resumeQueue = queue.beside('resume', 1);
  }

  /**
   * Makes a logical volume whose number in the thin pool is free: it cannot be activated before `take`. Cut short, it is a draft,
   * and LVM removes it as any other.
   * @returns its number
   */
  async prepare(from: OwnLv, lvName: string, tags: readonly string[]): Promise<bigint> {
    await this.#pool.create(lvName, from.sizeBytes, tags, familyTagOf(from));
    const blank = this.#pool.group.deviceOf(lvName);
    const status = blank && (await this.#mapper.status(this.#queue, blank.device, false));
    // What is thrown away must be what was just made.
    if (blank === undefined || status === undefined || parseThinBytes(status) !== 0n) {
      throw new InternalError(
        `logical volume ${this.#pool.group.name}/${lvName} is not blank, and was just made: it is left.`,
      );
    }
    const number = await this.#numberOf(lvName, blank);
    await this.#removeDevice(lvName);
    await step('instant/forget', () => this.#pool.tell(`delete ${number}`));
    return number;
  }

  /**
   * Puts a snapshot of the source, as it is now, under that number. Durable at its end.
   * @param signal aborted when writers have waited for too long: they go on, and what was made is not of one instant
   */
  async take(from: OwnLv, lvName: string, number: bigint, signal: AbortSignal | undefined): Promise<void> {
    const source = this.#pool.group.deviceOf(from.name);
    if (source === undefined) {
      throw new InternalError(
        `logical volume ${this.#pool.group.name}/${from.name} was in use, and is not active any more.`,
      );
    }
    const message = `create_snap ${number} ${await this.#numberOf(from.name, source)}`;
    signal?.throwIfAborted();
    // What it says is asked for below.
    const goOn = () => void this.#resume(source).catch(() => undefined);
    signal?.addEventListener('abort', goOn, { once: true });
    try {
      // What is written while the kernel makes a snapshot would be in it or not, as it comes (thin-provisioning.rst).
      await step('instant/suspend', () => this.#mapper.suspend(this.#queue, source.device));
      signal?.throwIfAborted();
      await step('instant/take', () => this.#pool.tell(message));
    } finally {
      signal?.removeEventListener('abort', goOn);
      await this.#resume(source);
    }
    signal?.throwIfAborted();
    await this.#pool.ownsAsMuch(lvName, from.name);
  }

  /** After a start: those who use what a killed driver, or a killed LVM, has left suspended wait for that. */
  async resumeAll(): Promise<void> {
    const { group } = this.#pool;
    for (const { name } of group.all()) {
      const mapped = group.deviceOf(name);
      if (mapped?.isSuspended !== true) continue;
      await this.#resume(mapped);
      this.#log.warn(
        { pool: group.poolName, device: mapped.name },
        'resumed a device that a killed driver had suspended',
      );
    }
  }

  async #resume({ device, name }: MappedState): Promise<void> {
    try {
      await step('instant/resume', () => this.#mapper.resume(this.#resumeQueue, device));
    } catch (error) {
      this.#log.error(
        { pool: this.#pool.group.poolName, device: name, err: error },
        'cannot resume a device: its users wait for dmsetup resume',
      );
      throw error;
    }
  }

  /** As the kernel has it. */
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
    // udev has a look at it, say: LVM waits for that.
    if (group.deviceOf(lvName) !== undefined) await group.deactivate([lvName]);
  }
}
