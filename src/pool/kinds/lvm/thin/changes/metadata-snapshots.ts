import { metadataBlockBytes } from '../../../../../kernel/block/thin-metadata.ts';
import type { Descriptor } from '../../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../../../kernel/call/errno.ts';
import { readDirect } from '../../../../../kernel/file/direct.ts';
import { FailedPrecondition, ResourceExhausted, Unavailable } from '../../../../../volume/errors.ts';
import { step } from '../../../../../volume/step.ts';
import type { PoolLog } from '../../../../log.ts';
import { mappedName, thinLvName } from '../../names.ts';
import { shortageOf } from '../sizes.ts';
import type { ThinPool } from '../thin-pool.ts';
import { MappingTrees } from './mapping-trees.ts';
import { SharedHold } from './shared-hold.ts';
import { isOurs, type SnapshotNotes } from './snapshot-note.ts';

/** The next page of a reader is requested much sooner. */
const lingerMs = 1_000;
/** While one is held, none of its blocks of metadata or data can be freed: so it never grows old. */
const longestMs = 10_000;

interface Taken {
  readonly block: bigint;
  readonly device: Descriptor;
  readonly trees: MappingTrees;
}

export interface MetadataSnapshotOptions {
  readonly queue: DiskQueue;
  readonly notes: SnapshotNotes;
  readonly log: PoolLog;
}

/**
 * The metadata of a thin pool at one moment: the kernel keeps one such snapshot at a time on demand, and simultaneous readers
 * share it (Documentation/admin-guide/device-mapper/thin-provisioning.rst, reserve_metadata_snap).
 */
export class MetadataSnapshots {
  readonly #pool: ThinPool;
  readonly #options: MetadataSnapshotOptions;
  readonly #hold: SharedHold<Taken>;

  constructor(pool: ThinPool, options: MetadataSnapshotOptions) {
    this.#pool = pool;
    this.#options = options;
    this.#hold = new SharedHold<Taken>({
      ...{ lingerMs, longestMs, what: `pool ${pool.group.poolName}` },
      take: () => this.#take(),
      giveBack: (taken) => this.#giveBack(taken),
    });
  }

  /** A snapshot newer than this number, read by `read`, has all devices that are there now. */
  get lastNumber(): number {
    return this.#hold.lastNumber;
  }

  /**
   * Reads a little of it. @param after a newer one than this
   * @throws ResourceExhausted, FailedPrecondition, Unavailable, DataLoss
   */
  read<R>(after: number, work: (trees: MappingTrees, number: number) => Promise<R>): Promise<R> {
    return this.#hold.use(after, async ({ block, trees }, number) => {
      const result = await work(trees, number);
      // Its blocks may have been reused since it was released by hand.
      if ((await this.#pool.status()).snapshotBlock === block) return result;
      throw new Unavailable(
        `pool ${this.#pool.group.poolName}: the metadata snapshot of its thin pool was released by another program; try again.`,
      );
    });
  }

  /** Gives back the snapshot of a killed driver. Another program's is left, and logged. */
  async open(): Promise<void> {
    const { group } = this.#pool;
    const facts = { pool: group.poolName, volume_group: group.name, release: this.#releaseCommand };
    let snapshotBlock: bigint | undefined;
    try {
      snapshotBlock = await this.#giveBackLeft();
    } catch (error) {
      // For example, one that cannot be written to: its volumes can be read anyway.
      const message = 'a metadata snapshot that a killed driver has left in the thin pool cannot be released';
      this.#options.log.warn({ ...facts, err: error }, message);
      return;
    }
    if (snapshotBlock === undefined) return;
    this.#options.log.warn(
      facts,
      'the thin pool has a metadata snapshot of another program: changed blocks of snapshots are not available until it is released',
    );
  }

  async close(): Promise<void> {
    await this.#hold.close();
    // Where it could not be given back before.
    if (this.lastNumber > 0) await this.#giveBackLeft();
  }

  /** For a disk that does not answer: the next start gives it back. */
  abandon(): void {
    this.#hold.abandon()?.device.closeLater();
  }

  async #take(): Promise<Taken> {
    const pool = this.#pool;
    const { notes } = this.#options;
    await this.#requireRoom();
    if ((await this.#giveBackLeft()) !== undefined) throw this.#taken();
    await step('metadata/note', () => notes.write({ block: undefined }));
    try {
      await step('metadata/reserve', () => pool.tell('reserve_metadata_snap'));
    } catch (error) {
      // Also of an error after which it may be there: the note stays.
      if (!isErrno(error, 'EBUSY')) throw error;
      await notes.clear();
      throw this.#taken();
    }
    try {
      return await this.#open();
    } catch (error) {
      await this.#giveBackLeft().catch(() => undefined);
      throw error;
    }
  }

  async #open(): Promise<Taken> {
    const block = (await this.#pool.status()).snapshotBlock;
    if (block === undefined) throw this.#taken();
    await step('metadata/record', () => this.#options.notes.write({ block }));
    const device = await this.#pool.openMetadata();
    try {
      const { poolName } = this.#pool.group;
      const trees = await MappingTrees.open(poolName, (each) => this.#readBlock(device, each), block);
      return { block, device, trees };
    } catch (error) {
      await device[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #giveBack({ device }: Taken): Promise<void> {
    await device[Symbol.asyncDispose]();
    await this.#giveBackLeft();
  }

  /** Compares the pool's snapshot with the note. @returns the one that another program has */
  async #giveBackLeft(): Promise<bigint | undefined> {
    const { notes } = this.#options;
    const { mode, snapshotBlock } = await this.#pool.status();
    // Nothing is known of it then.
    if (mode === 'fail') return undefined;
    const note = await notes.read();
    if (note === undefined) return snapshotBlock;
    const ours = snapshotBlock !== undefined && isOurs(note, snapshotBlock);
    if (ours) await step('metadata/release', () => this.#pool.tell('release_metadata_snap'));
    await step('metadata/clear', () => notes.clear());
    return ours ? undefined : snapshotBlock;
  }

  /** @throws ResourceExhausted, FailedPrecondition */
  async #requireRoom(): Promise<void> {
    const { group, isOvercommitted } = this.#pool;
    const { alarm } = shortageOf(await this.#pool.status(), isOvercommitted);
    if (alarm === 'metadata') {
      throw new ResourceExhausted(
        `pool ${group.poolName}: changed blocks are not available while the metadata of its thin pool is nearly full: extend volume group ${group.name}, or delete volumes and snapshots.`,
      );
    }
    if (alarm === 'mode') {
      throw new FailedPrecondition(
        `pool ${group.poolName}: changed blocks are not available while its thin pool cannot be written to: see lvs -a ${group.name}.`,
      );
    }
  }

  #readBlock(device: Descriptor, block: bigint): Promise<Buffer> {
    const offsetBytes = block * BigInt(metadataBlockBytes);
    return readDirect(this.#options.queue, device, { lengthBytes: metadataBlockBytes, offsetBytes });
  }

  get #releaseCommand(): string {
    return `dmsetup message ${mappedName(this.#pool.group.name, thinLvName)}-tpool 0 release_metadata_snap`;
  }

  #taken(): Unavailable {
    return new Unavailable(
      `pool ${this.#pool.group.poolName}: another program has its thin pool's metadata snapshot. If it is not needed: ${this.#releaseCommand}`,
    );
  }
}
