import { ResourceExhausted } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import { formatBytes, larger } from '../../volume/size.ts';
import { withTimeout } from '../../volume/with-timeout.ts';
import type { Piece } from '../backend.ts';
import { isOriginal, type TrashEntry } from '../catalog/trash-entry.ts';
import type { PoolCapacity } from '../pool.ts';
import type { SpaceRequest } from './space-holds.ts';
import type { HeldSpace, SpaceLedger, SpaceOptions, SpaceSurvey } from './space-ledger.ts';

/** What the catalog has to do with space, however it is counted. */
export type Ledger = Pick<SpaceLedger, keyof SpaceLedger>;

/** What has no wipe to wait for is free in a moment. */
const freeingPatienceMs = 2_000;

export interface PieceOptions extends Pick<SpaceOptions, 'poolName' | 'index'> {
  readonly trash: Pick<SpaceOptions['trash'], 'entries' | 'purgeEarly'>;
  readonly pieces: () => Promise<readonly Piece[]>;
}

/**
 * The space of a pool whose volumes have one piece each, a whole disk: nothing is shared, nothing is kept in reserve, and
 * what can be had is the largest piece that is free. Which one a volume gets its draft chooses, and nobody else then.
 */
export class PieceLedger implements Ledger {
  readonly #options: PieceOptions;

  constructor(options: PieceOptions) {
    this.#options = options;
  }

  /** What lies in the trash goes when nothing else is large enough: the smallest that is, and of those the oldest. */
  async hold({ newBytes }: SpaceRequest): Promise<HeldSpace> {
    if (newBytes === 0n || (await this.#fits(newBytes))) return held;
    const chosen = await this.#expendable(newBytes);
    if (chosen === undefined) throw await this.#exhausted(newBytes);
    await this.#options.trash.purgeEarly([chosen]);
    await withTimeout(freeingPatienceMs, this.#freed(newBytes));
    if (await this.#fits(newBytes)) return held;
    throw new ResourceExhausted(
      `pool ${this.#options.poolName} has no free disk of ${formatBytes(newBytes)}, but one is being wiped of a deleted volume: try again later.`,
    );
  }

  async holdSpare(): Promise<HeldSpace | undefined> {
    return undefined;
  }

  /** It has its piece still. */
  async holdAgain(): Promise<HeldSpace> {
    return held;
  }

  async measure(): Promise<PoolCapacity> {
    return (await this.survey()).capacity;
  }

  async survey(): Promise<SpaceSurvey> {
    const pieces = await this.#options.pieces();
    const sum = (which: (piece: Piece) => boolean) =>
      pieces.filter(which).reduce((total, { sizeBytes }) => total + sizeBytes, 0n);
    const totalBytes = sum(() => true);
    const freeBytes = sum(({ use }) => use === 'free');
    const inTrash = new Set(this.#givers().map(({ ref }) => ref));
    const available = pieces
      .filter(({ ref, use }) => use === 'free' || (ref !== undefined && inTrash.has(ref)))
      .reduce((most, { sizeBytes }) => larger(most, sizeBytes), 0n);
    const records = [...this.#options.index.all()];
    return {
      capacity: {
        totalBytes,
        provisionedBytes: records.reduce((total, { sizeBytes }) => total + sizeBytes, 0n),
        usedBytes: totalBytes - freeBytes,
        availableBytes: available,
        thickAvailableBytes: available,
      },
      disk: { diskBytes: totalBytes, freeBytes, claimableBytes: 0n, snapshotBytes: 0n },
      trashedBytes: sum(({ ref }) => ref !== undefined && inTrash.has(ref)),
      allocatedBytes: (id: VolumeId) => records.find((record) => record.id === id)?.sizeBytes ?? 0n,
    };
  }

  /** That every disk has a volume is as it should be. */
  async isNearlyFull(): Promise<boolean> {
    return false;
  }

  mayBeShared(): boolean {
    return false;
  }

  willWrite(): void {}

  hasChanged(): void {}

  gone(): void {}

  async #fits(bytes: bigint): Promise<boolean> {
    const pieces = await this.#options.pieces();
    return pieces.some(({ sizeBytes, use }) => use === 'free' && sizeBytes >= bytes);
  }

  async #freed(bytes: bigint): Promise<void> {
    const giveUpMs = performance.now() + freeingPatienceMs;
    while (performance.now() < giveUpMs && !(await this.#fits(bytes))) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  #givers(): TrashEntry[] {
    return this.#options.trash.entries().filter((entry) => !isOriginal(entry));
  }

  async #expendable(bytes: bigint): Promise<TrashEntry | undefined> {
    const sizes = new Map((await this.#options.pieces()).map(({ ref, sizeBytes }) => [ref, sizeBytes]));
    const large = this.#givers()
      .reverse()
      .filter(({ ref }) => (sizes.get(ref) ?? 0n) >= bytes);
    const [smallest] = large.toSorted((a, b) => ((sizes.get(a.ref) ?? 0n) < (sizes.get(b.ref) ?? 0n) ? -1 : 1));
    return smallest;
  }

  async #exhausted(bytes: bigint): Promise<ResourceExhausted> {
    const { availableBytes } = await this.measure();
    const most = availableBytes === 0n ? 'none is free' : `the largest that is free has ${formatBytes(availableBytes)}`;
    return new ResourceExhausted(
      `pool ${this.#options.poolName} has no free disk of ${bytes} bytes (${formatBytes(bytes)}): ${most}. Delete volumes or add disks.`,
    );
  }
}

/** Which piece it is, its draft chooses. */
const held: HeldSpace = { confirm: async () => undefined, [Symbol.dispose]: () => undefined };
