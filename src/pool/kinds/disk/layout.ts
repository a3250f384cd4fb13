/** What a disk is to whoever lays something out on it. */
export interface Geometry {
  readonly sizeBytes: bigint;
  /** The logical block size: 512, or 4096 (4Kn). */
  readonly sectorBytes: number;
}

const mebibyte = 1n << 20n;

/** Where the label lies, the partition for records. Before it there is nothing but the partition table. */
export const labelPlace = { number: 1, startBytes: mebibyte, lengthBytes: mebibyte } as const;

/** The partition that is the volume. */
export const dataNumber = 2;

/** Less is no disk that anybody would want a volume on. */
export const smallestDiskBytes = 16n * mebibyte;

/**
 * Where the data of a volume lies: behind the label, whole mebibytes, so that it is aligned for every disk; the last
 * mebibyte of the disk has the second copy of the partition table.
 */
export function dataPlace({ sizeBytes }: Pick<Geometry, 'sizeBytes'>) {
  const startBytes = labelPlace.startBytes + labelPlace.lengthBytes;
  const endBytes = ((sizeBytes - mebibyte) / mebibyte) * mebibyte;
  return { number: dataNumber, startBytes, lengthBytes: endBytes - startBytes };
}
