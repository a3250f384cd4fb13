import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { statBlockBytes } from '../../kernel/file/path.ts';
import { smaller } from '../../volume/size.ts';
import { minimumLocationBytes } from './format.ts';
import { type Trouble, tooFull } from './trouble.ts';

/** A backing file that exists, on a host with this free space. */
export interface PresentFile {
  readonly sizeBytes: bigint;
  readonly allocatedBytes: bigint;
}

const mebibyte = 1n << 20n;
/** An ext4 of 4096-byte blocks, as most hosts are, has no files of 16 TiB. */
const largestBytes = 15n << 40n;

/**
 * The default size of a backing file: four fifths of the space that it could take from its host. One that is there
 * grows when that would make a difference, as when the host's disk was enlarged; it never shrinks.
 */
export function defaultFileBytes(hostFreeBytes: bigint, present?: PresentFile): bigint {
  const share = ((hostFreeBytes + (present?.allocatedBytes ?? 0n)) * 4n) / 5n;
  const wantedBytes = smaller(largestBytes, share - (share % mebibyte));
  if (present === undefined) return wantedBytes;
  return wantedBytes > present.sizeBytes + present.sizeBytes / 10n ? wantedBytes : present.sizeBytes;
}

/** @throws FailedPrecondition if the file is still to be made, and there is too little room for it */
export async function defaultSizeOf(location: Trouble): Promise<bigint> {
  const { queue, path } = location;
  const host = await queue.run(() => statfs(dirname(path), { bigint: true }));
  const file = await queue.run(() => stat(path, { bigint: true })).catch(ignoreMissing);
  const present = file && { sizeBytes: file.size, allocatedBytes: file.blocks * statBlockBytes };
  const sizeBytes = defaultFileBytes(host.bavail * host.bsize, present);
  if (present === undefined && sizeBytes < minimumLocationBytes) throw await tooFull(location);
  return sizeBytes;
}
