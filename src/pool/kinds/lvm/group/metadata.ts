import type { OwnLv } from './group-state.ts';

/** Room for the text of a volume group, on each of its disks. */
export interface MetadataRoom {
  readonly totalBytes: bigint;
  readonly freeBytes: bigint;
}

/** The size of LVM's text about a logical volume without its tags; a mirror has four more below it. */
const bytesOfLv = 700n;
const partsOf = { linear: 1n, striped: 1n, raid1: 5n } as const;

/** An estimate of the metadata that a logical volume takes: LVM reports the free room only when it is asked. */
export function metadataBytesOf({ layout, tags }: Pick<OwnLv, 'layout' | 'tags'>): bigint {
  const textBytes = tags.reduce((sum, tag) => sum + tag.length + '"", '.length, 0);
  return bytesOfLv * partsOf[layout] + BigInt(textBytes);
}

/**
 * True if too little is left for new volumes. Existing ones need some: to be kept when it is deleted a volume gets one tag
 * more, and where there is no room for that it could not be deleted at all.
 */
export function isMetadataLow({ freeBytes, totalBytes }: MetadataRoom): boolean {
  return freeBytes * 16n < totalBytes;
}
