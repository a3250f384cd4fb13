/*
 * Where things lie on a disk of ours. It has a GPT with one partition; in that are a label, the data of the volume, and
 * zeros. So neither the disk nor its partition begins or ends with data of a volume's user, and a program that looks at
 * either (udev, LVM, MD) does not find the content of the volume.
 */

export const mebibyte = 1n << 20n;

/** The smallest disk that is of any use: beside our own parts it has 16 MiB for its volume. */
export const minimumDiskBytes = 20n * mebibyte;

export interface DiskShape {
  readonly sizeBytes: bigint;
  /** Its logical block size: GPT counts in it. */
  readonly sectorBytes: number;
}

/** A part of a disk. */
export interface Extent {
  readonly offsetBytes: bigint;
  readonly lengthBytes: bigint;
}

export interface DiskLayout {
  readonly partition: Extent;
  /** The first MiB of the partition. */
  readonly label: Extent;
  readonly data: Extent;
  /** From the end of the data to the end of the disk: a MiB of zeros, then the rest, then the GPT's second half. */
  readonly tail: Extent;
}

/** The size of all entries of a GPT: 128 of 128 bytes, as every program makes them. */
export const entriesBytes = 16_384n;

/** @throws RangeError if the disk is too small */
export function layoutOf({ sectorBytes, sizeBytes }: DiskShape): DiskLayout {
  if (sizeBytes < minimumDiskBytes) throw new RangeError(`a disk of ${sizeBytes} bytes is too small`);
  const gptBytes = entriesBytes + BigInt(sectorBytes);
  const endBytes = ((sizeBytes - gptBytes) / mebibyte) * mebibyte;
  const partition = { offsetBytes: mebibyte, lengthBytes: endBytes - mebibyte };
  const data = { offsetBytes: 2n * mebibyte, lengthBytes: endBytes - 3n * mebibyte };
  const dataEndBytes = data.offsetBytes + data.lengthBytes;
  return {
    partition,
    label: { offsetBytes: partition.offsetBytes, lengthBytes: mebibyte },
    data,
    tail: { offsetBytes: dataEndBytes, lengthBytes: sizeBytes - dataEndBytes },
  };
}
