import type { DataRef } from '../backend.ts';
import type { Relative } from './lineage.ts';

/** The known figures of an image that is not written to. */
interface Figure {
  readonly relative: Relative | undefined;
  readonly mayShare: boolean;
  readonly isOfTemplate: boolean;
  /** undefined: it was not looked at yet. */
  allocatedBytes: bigint | undefined;
  /** undefined: no map of it was read yet. */
  sharedBytes: bigint | undefined;
}

/** The data of something that lies still. */
export interface StillImage {
  readonly data: DataRef;
  /** Unset: it is not asked for. */
  readonly relative?: Relative | undefined;
  /** True if anything may share its blocks. */
  readonly mayShare: boolean;
  /** True if only a template may share them: removing it frees little. */
  readonly isOfTemplate?: boolean;
}

/** The space of images that are not written to: snapshots, and those in the trash. Each is looked at once. */
export class StillSpace {
  readonly #figures = new Map<DataRef, Figure>();
  readonly #unseen = new Set<DataRef>();
  #allocatedBytes = 0n;

  /** The space of all of them, with the shared blocks. */
  get allocatedBytes(): bigint {
    return this.#allocatedBytes;
  }

  /** Bytes known to be taken by all objects of an id. */
  allocatedOf(id: string): bigint {
    let sum = 0n;
    for (const { allocatedBytes, relative } of this.#figures.values()) {
      if (relative?.id === id) sum += allocatedBytes ?? 0n;
    }
    return sum;
  }

  has(data: DataRef): boolean {
    return this.#figures.has(data);
  }

  put({ data, isOfTemplate = false, mayShare, relative }: StillImage): void {
    if (this.#figures.has(data)) return;
    this.#figures.set(data, {
      relative,
      mayShare,
      isOfTemplate,
      allocatedBytes: undefined,
      sharedBytes: mayShare ? undefined : 0n,
    });
    this.#unseen.add(data);
  }

  delete(data: DataRef): void {
    const figure = this.#figures.get(data);
    if (figure === undefined) return;
    this.#allocatedBytes -= figure.allocatedBytes ?? 0n;
    this.#figures.delete(data);
    this.#unseen.delete(data);
  }

  /** Forgets images that are not among these, and adds new ones. */
  keepOnly(images: readonly StillImage[]): void {
    const wanted = new Set(images.map(({ data }) => data));
    for (const data of this.#figures.keys()) if (!wanted.has(data)) this.delete(data);
    for (const image of images) this.put(image);
  }

  /** The figures of the image there may be wrong by now. */
  unsee(data: DataRef): void {
    const figure = this.#figures.get(data);
    if (figure === undefined) return;
    if (figure.mayShare) figure.sharedBytes = undefined;
    this.#unseen.add(data);
  }

  toSee(): DataRef[] {
    return [...this.#unseen];
  }

  saw(data: DataRef, allocatedBytes: bigint): void {
    const figure = this.#figures.get(data);
    if (figure === undefined) return;
    this.#allocatedBytes += allocatedBytes - (figure.allocatedBytes ?? 0n);
    figure.allocatedBytes = allocatedBytes;
    this.#unseen.delete(data);
  }

  /**
   * The images whose blocks others may share: only their maps tell how many blocks.
   * @param again also those whose maps were read before
   */
  toMap(again: boolean): Pick<Figure & StillImage, 'data' | 'relative'>[] {
    return Array.from(this.#figures).flatMap(([data, { isOfTemplate, mayShare, relative, sharedBytes }]) =>
      mayShare && ((again && !isOfTemplate) || sharedBytes === undefined) ? [{ data, relative }] : [],
    );
  }

  /** Data that shares blocks with more than a template. */
  sharing(): DataRef[] {
    return Array.from(this.#figures).flatMap(([data, { isOfTemplate, mayShare }]) =>
      mayShare && !isOfTemplate ? [data] : [],
    );
  }

  mapped(data: DataRef, sharedBytes: bigint): void {
    const figure = this.#figures.get(data);
    if (figure !== undefined) figure.sharedBytes = sharedBytes;
  }

  /** The bytes that its end would certainly free. */
  ownedBytes(data: DataRef): bigint {
    const { allocatedBytes = 0n, sharedBytes } = this.#figures.get(data) ?? {};
    return sharedBytes === undefined || sharedBytes > allocatedBytes ? 0n : allocatedBytes - sharedBytes;
  }
}
