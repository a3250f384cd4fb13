import type { Relative } from './lineage.ts';

/** The known figures of an image that is not written to. */
interface Figure {
  readonly path: string;
  readonly relative: Relative | undefined;
  readonly mayShare: boolean;
  readonly isOfTemplate: boolean;
  /** undefined: it was not looked at yet. */
  allocatedBytes: bigint | undefined;
  /** undefined: no map of it was read yet. */
  sharedBytes: bigint | undefined;
}

/** Something that lies still, and where its image is. */
export interface StillImage {
  readonly key: string;
  readonly path: string;
  /** Unset: it is not asked for. */
  readonly relative?: Relative | undefined;
  /** True if anything may share its blocks. */
  readonly mayShare: boolean;
  /** True if only a template may share them: removing it frees little. */
  readonly isOfTemplate?: boolean;
}

/** The space of images that are not written to: snapshots, and those in the trash. Each is looked at once. */
export class StillSpace {
  readonly #figures = new Map<string, Figure>();
  readonly #unseen = new Set<string>();
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

  has(key: string): boolean {
    return this.#figures.has(key);
  }

  put({ key, isOfTemplate = false, mayShare, path, relative }: StillImage): void {
    if (this.#figures.has(key)) return;
    this.#figures.set(key, {
      path,
      relative,
      mayShare,
      isOfTemplate,
      allocatedBytes: undefined,
      sharedBytes: mayShare ? undefined : 0n,
    });
    this.#unseen.add(key);
  }

  delete(key: string): void {
    const figure = this.#figures.get(key);
    if (figure === undefined) return;
    this.#allocatedBytes -= figure.allocatedBytes ?? 0n;
    this.#figures.delete(key);
    this.#unseen.delete(key);
  }

  /** Forgets images that are not among these, and adds new ones. */
  keepOnly(images: readonly StillImage[]): void {
    const keys = new Set(images.map(({ key }) => key));
    for (const key of this.#figures.keys()) if (!keys.has(key)) this.delete(key);
    for (const image of images) this.put(image);
  }

  /** The figures of the image there may be wrong by now. */
  unsee(path: string): void {
    for (const [key, figure] of this.#figures) {
      if (figure.path !== path) continue;
      if (figure.mayShare) figure.sharedBytes = undefined;
      this.#unseen.add(key);
    }
  }

  toSee(): Pick<StillImage, 'key' | 'path'>[] {
    return [...this.#unseen].flatMap((key) => {
      const figure = this.#figures.get(key);
      return figure === undefined ? [] : [{ key, path: figure.path }];
    });
  }

  saw(key: string, allocatedBytes: bigint): void {
    const figure = this.#figures.get(key);
    if (figure === undefined) return;
    this.#allocatedBytes += allocatedBytes - (figure.allocatedBytes ?? 0n);
    figure.allocatedBytes = allocatedBytes;
    this.#unseen.delete(key);
  }

  /**
   * The images whose blocks others may share: only their maps tell how many blocks.
   * @param again also those whose maps were read before
   */
  toMap(again: boolean): Pick<Figure & StillImage, 'key' | 'path' | 'relative'>[] {
    return Array.from(this.#figures).flatMap(([key, { isOfTemplate, mayShare, path, relative, sharedBytes }]) =>
      mayShare && ((again && !isOfTemplate) || sharedBytes === undefined) ? [{ key, path, relative }] : [],
    );
  }

  sharingPaths(): string[] {
    return Array.from(this.#figures.values()).flatMap(({ isOfTemplate, mayShare, path }) =>
      mayShare && !isOfTemplate ? [path] : [],
    );
  }

  mapped(key: string, sharedBytes: bigint): void {
    const figure = this.#figures.get(key);
    if (figure !== undefined) figure.sharedBytes = sharedBytes;
  }

  /** The bytes that its end would certainly free. */
  ownedBytes(key: string): bigint {
    const { allocatedBytes = 0n, sharedBytes } = this.#figures.get(key) ?? {};
    return sharedBytes === undefined || sharedBytes > allocatedBytes ? 0n : allocatedBytes - sharedBytes;
  }
}
