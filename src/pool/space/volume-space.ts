import { storedBytes } from '../../volume/encryption.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { smaller } from '../../volume/size.ts';
import { ownedBytes } from './space.ts';

/** The known figures of one volume's image. */
interface Figure {
  readonly id: VolumeId;
  sizeBytes: bigint;
  allocatedBytes: bigint;
  /** By the last map of its extents; it may have become less since, but not more. undefined: no map was read yet. */
  sharedBytes: bigint | undefined;
  /** True if anything may share its blocks at all. */
  mayShare: boolean;
  /**
   * True if anything may have shared them since a map was read of it while not in use: it may take blocks that it gives
   * back.
   */
  hasShared: boolean;
  /** True if only a template may. */
  isOfTemplate: boolean;
  /** True if it is as it was cloned from one: never written to, and never changed. */
  isFresh: boolean;
  /** The number of operations that are about to share its blocks. */
  pins: number;
  /** The number of maps of others that had become untrue when its own was read. */
  mapAge: number;
  /** A map that was begun at another one is of no use: its blocks have been shared since. */
  version: number;
  ownedBytes: bigint;
}

export interface VolumeSums {
  readonly provisionedBytes: bigint;
  readonly ownedBytes: bigint;
  readonly allocatedBytes: bigint;
  /** The bytes that volumes share with templates. */
  readonly templateBytes: bigint;
}

/** The objects with which a volume shares blocks; fresh: with a template, and it was never written to. */
export type Sharing = 'nothing' | 'anything' | 'template' | 'fresh';

/** Bytes that are held. */
export interface Hold extends Disposable {
  /** The number of them that has been taken in all, and is not free any more. */
  took(takenBytes: bigint): void;
}

/** The sums at a moment, to be used with the free space just after it. */
export interface SumsThen {
  readonly ownedBytes: bigint;
  readonly loweredBytes: bigint;
  readonly releasedBytes: bigint;
}

/**
 * The allocated and owned bytes of each volume's image at the last look, in running sums. The driver's operations change them:
 * only a volume that is in use, or that an operation has changed, has to be looked at again. The owned bytes of a volume are
 * never too high: blocks whose sharing is not known count as shared.
 */
export class VolumeSpace {
  readonly #figures = new Map<VolumeId, Figure>();
  /** Volumes that have changed since they were looked at, and when. */
  readonly #unseen = new Map<VolumeId, number>();
  /** Volumes of which others may share blocks, and whose maps may have something new. */
  readonly #sharing = new Set<VolumeId>();
  /** Volumes that share with templates alone, and whose maps were read: looked at again only where space is short. */
  readonly #mappedOfTemplates = new Set<VolumeId>();
  /** Volumes that may be written at any moment, and when they became so. */
  readonly #live = new Map<VolumeId, number>();
  #sums: VolumeSums = { provisionedBytes: 0n, ownedBytes: 0n, allocatedBytes: 0n, templateBytes: 0n };
  /** The sum of all decreases of `ownedBytes`. */
  #loweredBytes = 0n;
  #heldBytes = 0n;
  /** All that was ever held and is not any more. */
  #releasedBytes = 0n;
  #mapAge = 0;
  #forgottenCount = 0;
  #sharedFreshBytes = 0n;
  #changeCount = 0;

  get sums(): VolumeSums {
    return this.#sums;
  }

  now(): SumsThen {
    return {
      ownedBytes: this.#sums.ownedBytes,
      loweredBytes: this.#loweredBytes,
      releasedBytes: this.#releasedBytes,
    };
  }

  /**
   * The owned bytes as of a snapshot of the sums, to be added to the free space just after it: the sum then, less all decreases
   * since. Bytes written since were free then, so increases do not count.
   */
  ownedSince({ loweredBytes, ownedBytes: then }: SumsThen): bigint {
    return then - (this.#loweredBytes - loweredBytes);
  }

  /**
   * The held bytes to be subtracted from the free space just after the snapshot: holds released since then still count,
   * as their space may have been taken since.
   */
  heldSince({ releasedBytes }: SumsThen): bigint {
    return this.#heldBytes + this.#releasedBytes - releasedBytes;
  }

  /** Holds bytes without a volume. */
  hold(bytes: bigint): Hold {
    this.#heldBytes += bytes;
    let restBytes = bytes;
    const release = (released: bigint) => {
      restBytes -= released;
      this.#heldBytes -= released;
      this.#releasedBytes += released;
    };
    return {
      took: (takenBytes) => {
        const newly = takenBytes - (bytes - restBytes);
        if (newly > 0n) release(smaller(newly, restBytes));
      },
      [Symbol.dispose]: () => release(restBytes),
    };
  }

  /** A volume was made or changed, and has to be looked at. */
  put(
    record: Pick<VolumeRecord, 'encryption' | 'id' | 'sizeBytes' | 'source'>,
    sharing: Sharing = record.source === undefined ? 'nothing' : 'anything',
  ): void {
    const { id } = record;
    const sizeBytes = storedBytes(record);
    const before = this.#figures.get(id);
    this.unsee(id);
    if (before !== undefined) {
      this.#change(before, { sizeBytes, isFresh: false });
      return;
    }
    const nothing = { sizeBytes: 0n, allocatedBytes: 0n, sharedBytes: undefined, ownedBytes: 0n };
    const mayShare = sharing !== 'nothing';
    const isFresh = sharing === 'fresh';
    const isOfTemplate = isFresh || sharing === 'template';
    const shares = { mayShare, hasShared: mayShare, isOfTemplate, isFresh };
    const figure = { id, ...nothing, ...shares, pins: 0, mapAge: 0, version: 0 };
    this.#figures.set(id, figure);
    this.#change(figure, { sizeBytes });
  }

  delete(id: VolumeId): void {
    const figure = this.#figures.get(id);
    if (figure === undefined) return;
    this.#change(figure, { sizeBytes: 0n, allocatedBytes: 0n, mayShare: false });
    this.#figures.delete(id);
    this.#unseen.delete(id);
    this.#live.delete(id);
  }

  /** Changes whenever something is done to a volume. */
  get revision(): number {
    return this.#changeCount;
  }

  /** Volumes whose blocks others than templates may share. */
  get sharing(): readonly VolumeId[] {
    return [...this.#sharing].filter((id) => this.#figures.get(id)?.isOfTemplate === false);
  }

  /** With what it may share blocks, or may have shared them. */
  sharingOf(id: VolumeId): Sharing {
    const figure = this.#figures.get(id);
    if (figure === undefined || !figure.hasShared) return 'nothing';
    if (figure.isFresh) return 'fresh';
    return figure.isOfTemplate ? 'template' : 'anything';
  }

  allocatedBytes(id: VolumeId): bigint {
    return this.#figures.get(id)?.allocatedBytes ?? 0n;
  }

  ownedBytes(id: VolumeId): bigint {
    return this.#figures.get(id)?.ownedBytes ?? 0n;
  }

  /** Changes whenever a volume that may be in use owns less than it did, and no figure tells how much less. */
  get forgottenCount(): number {
    return this.#forgottenCount;
  }

  /** Grows by the bytes that a new volume owns no more since its first use. */
  get sharedFreshBytes(): bigint {
    return this.#sharedFreshBytes;
  }

  /** From here on until it is disposed of the volume owns nothing, and after that only what a new map tells. */
  pin(id: VolumeId): Disposable {
    this.#forgottenCount++;
    const figure = this.#figures.get(id);
    if (figure === undefined) return { [Symbol.dispose]: () => undefined };
    const share = (pins: number) => {
      figure.version++;
      this.#changeCount++;
      const changes = { pins, ...unknownSharing, isOfTemplate: false, isFresh: false };
      if (this.#figures.get(id) === figure) this.#change(figure, changes);
    };
    share(figure.pins + 1);
    return { [Symbol.dispose]: () => share(figure.pins - 1) };
  }

  /** It is being written to from now on, by a device or an operation. */
  use(id: VolumeId): void {
    this.#live.set(id, ++this.#changeCount);
    const figure = this.#figures.get(id);
    if (figure?.isFresh !== true) return;
    const before = figure.ownedBytes;
    this.#change(figure, { isFresh: false });
    this.#sharedFreshBytes += before - figure.ownedBytes;
  }

  get live(): ReadonlyMap<VolumeId, number> {
    return this.#live;
  }

  /**
   * The volume is not in use any more, unless a new use has begun since: it is looked at a last time. A map that was read
   * while it was in use is true only with the bytes allocated at that moment.
   */
  rest(id: VolumeId, since: number): void {
    if (this.#live.get(id) !== since) return;
    this.#live.delete(id);
    this.unsee(id);
    const figure = this.#figures.get(id);
    if (figure === undefined || !figure.hasShared) return;
    figure.version++;
    this.#forgottenCount++;
    this.#change(figure, unknownSharing);
  }

  /** Something has changed it, so it has to be looked at again. */
  unsee(id: VolumeId): void {
    this.#unseen.set(id, ++this.#changeCount);
  }

  /** @param evenInUse those too that only their users have changed */
  toSee(evenInUse: boolean): VolumeId[] {
    const ids = evenInUse ? new Set([...this.#unseen.keys(), ...this.#live.keys()]) : this.#unseen.keys();
    return [...ids].filter((id) => this.#figures.has(id));
  }

  /** To be called before a volume is looked at; what it returns, with what it takes. */
  beginLook(id: VolumeId): (allocatedBytes: bigint, isWritten: boolean) => void {
    const stamp = this.#unseen.get(id);
    return (allocatedBytes, isWritten) => {
      this.saw(id, allocatedBytes, isWritten);
      // It may have changed since.
      if (stamp !== undefined && this.#unseen.get(id) === stamp) this.#unseen.delete(id);
    };
  }

  /**
   * The allocated bytes of its image. @param isWritten false: they may yet have to be subtracted from the free space,
   * so they are not raised
   */
  saw(id: VolumeId, allocatedBytes: bigint, isWritten: boolean): void {
    const figure = this.#figures.get(id);
    if (figure === undefined) return;
    if (isWritten || allocatedBytes < figure.allocatedBytes) this.#change(figure, { allocatedBytes });
  }

  /** Something that shared blocks is gone: what it shared may be owned now. */
  outdateMaps(): void {
    this.#mapAge++;
  }

  /** The same where only this one can own more. An id that is no volume's is passed over. */
  outdateMap(id: string): void {
    const figure = this.#figures.get(id as VolumeId);
    if (figure === undefined) return;
    figure.mapAge = Number.NEGATIVE_INFINITY;
    figure.version++;
  }

  /**
   * The volumes whose maps may tell that they own more than is known.
   * @param evenInUse those too of which it is only because they are written to
   * @param evenOfTemplates those too that own but little more
   */
  toMap(evenInUse: boolean, evenOfTemplates: boolean): VolumeId[] {
    const ids = evenOfTemplates ? [...this.#sharing, ...this.#mappedOfTemplates] : [...this.#sharing];
    return ids.filter((id) => {
      const figure = this.#figures.get(id);
      if (figure === undefined || figure.pins > 0 || figure.allocatedBytes === 0n) return false;
      if (figure.sharedBytes === undefined) return true;
      return figure.mapAge !== this.#mapAge || (evenInUse && this.#live.has(id));
    });
  }

  /** To be called before a map is read; its result is called with the shared bytes of the map. */
  beginMap(id: VolumeId): (sharedBytes: bigint) => void {
    const figure = this.#figures.get(id);
    const { version } = figure ?? {};
    const mapAge = this.#mapAge;
    return (sharedBytes) => {
      if (figure === undefined || figure.version !== version || this.#figures.get(id) !== figure) return;
      figure.mapAge = mapAge;
      const mayShare = sharedBytes > 0n;
      const hasShared = mayShare || (figure.hasShared && this.#live.has(id));
      this.#change(figure, { sharedBytes, mayShare, hasShared });
    };
  }

  #change(figure: Figure, changes: Partial<Figure>): void {
    const { allocatedBytes, ownedBytes: owned, sizeBytes } = figure;
    const templateBytes = templateBytesOf(figure);
    Object.assign(figure, changes);
    figure.ownedBytes = ownedNow(figure);
    this.#sums = {
      provisionedBytes: this.#sums.provisionedBytes + figure.sizeBytes - sizeBytes,
      ownedBytes: this.#sums.ownedBytes + figure.ownedBytes - owned,
      allocatedBytes: this.#sums.allocatedBytes + figure.allocatedBytes - allocatedBytes,
      templateBytes: this.#sums.templateBytes + templateBytesOf(figure) - templateBytes,
    };
    this.#sort(figure);
    if (figure.ownedBytes < owned) this.#loweredBytes += owned - figure.ownedBytes;
  }

  #sort({ id, isFresh, isOfTemplate, mayShare, sharedBytes }: Figure): void {
    const isMapped = isOfTemplate && sharedBytes !== undefined;
    const place = !mayShare || isFresh ? undefined : isMapped ? this.#mappedOfTemplates : this.#sharing;
    for (const set of [this.#sharing, this.#mappedOfTemplates]) if (set !== place) set.delete(id);
    place?.add(id);
  }
}

/** All may be shared, until a map tells. */
const unknownSharing = { mayShare: true, hasShared: true, sharedBytes: undefined } as const;

/** All of its bytes if no map was read yet. */
function templateBytesOf({ allocatedBytes, isOfTemplate, mayShare, sharedBytes }: Figure): bigint {
  if (!isOfTemplate || !mayShare) return 0n;
  return smaller(allocatedBytes, sharedBytes ?? allocatedBytes);
}

function ownedNow({ allocatedBytes, mayShare, pins, sharedBytes, sizeBytes }: Figure): bigint {
  if (pins > 0) return 0n;
  if (!mayShare) return ownedBytes(sizeBytes, { allocatedBytes, sharedBytes: 0n });
  return sharedBytes === undefined ? 0n : ownedBytes(sizeBytes, { allocatedBytes, sharedBytes });
}
