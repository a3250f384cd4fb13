import type { OwnLv } from './group-state.ts';

/** Room for the text of a volume group, on each of its disks. */
export interface MetadataRoom {
  readonly totalBytes: bigint;
  readonly freeBytes: bigint;
}

/** What LVM says of a logical volume beside its tags; a mirror has four more below it. */
const bytesOfLv = 700n;
const partsOf = { linear: 1n, striped: 1n, raid1: 5n } as const;

/** What a logical volume takes of it, as good as it can be told: LVM says how much is left only when it is asked. */
export function metadataBytesOf({ layout, tags }: Pick<OwnLv, 'layout' | 'tags'>): bigint {
  const textBytes = tags.reduce((sum, tag) => sum + tag.length + '"", '.length, 0);
  return bytesOfLv * partsOf[layout] + BigInt(textBytes);
}

/**
 * Whether so little is left that nothing new is made. What is there needs some: to be kept when it is deleted it gets one tag
 * more, and where there is no room for that it could not be deleted at all.
 */
export function isMetadataLow({ freeBytes, totalBytes }: MetadataRoom): boolean {
  return freeBytes * 16n < totalBytes;
}
