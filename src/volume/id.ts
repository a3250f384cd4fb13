import { createHash } from 'node:crypto';

/**
 * An id is a prefix and 26 lower-case base32 characters (130 bits of SHA-256). It derives from a name and is not
 * random, so that a replay finds what the first try made (T03). It is a hash, so that a caller's name never becomes a
 * path or an argument (L08).
 */
type Id<Kind extends string> = string & { readonly __kind: Kind };

/** `vol-` and 26 characters. Only `volumeIdFor`, `ephemeralIdFor` and `parseVolumeId` make one. */
export type VolumeId = Id<'volume'>;
/** `snap-` and 26 characters. */
export type SnapshotId = Id<'snapshot'>;
/** `group-` and 26 characters. */
export type GroupId = Id<'group'>;

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const idCharacters = 26;
const volumeIdPattern = /^vol-[a-z2-7]{26}$/;
const snapshotIdPattern = /^snap-[a-z2-7]{26}$/;
const groupIdPattern = /^group-[a-z2-7]{26}$/;

/** The id that a name has on this node and pool. */
export function volumeIdFor(nodeId: string, poolName: string, volumeName: string): VolumeId {
  return `vol-${digest(nodeId, poolName, volumeName)}` as VolumeId;
}

/** The volume whose data a path leads to. The kernel shows such a path for a device. */
export function volumeIdInPath(path: string): VolumeId | undefined {
  return parseVolumeId(/\/(vol-[a-z2-7]{26})\//.exec(path)?.[1] ?? '');
}

/** The id of a name on this node. A snapshot lies in its source's pool, but no two pools have one of the same name. */
export function snapshotIdFor(nodeId: string, snapshotName: string): SnapshotId {
  return `snap-${digest(nodeId, snapshotName)}` as SnapshotId;
}

/**
 * The id of an ephemeral volume. It does not depend on the pool, since an unpublish names none. It is a hash of two
 * parts, so it differs from the ids of all names in all pools.
 */
export function ephemeralIdFor(nodeId: string, handle: string): VolumeId {
  return `vol-${digest(nodeId, handle)}` as VolumeId;
}

export function groupIdFor(nodeId: string, groupName: string): GroupId {
  return `group-${digest(nodeId, groupName)}` as GroupId;
}

/** The id of a group's snapshot of one volume. No name that a caller can choose has the same id. */
export function memberIdFor(groupId: GroupId, volumeId: VolumeId): SnapshotId {
  return `snap-${digest(groupId, volumeId, 'member')}` as SnapshotId;
}

/** Parses an id. Anything without its exact form is undefined, which means "no such volume" to a caller (DV02). */
export function parseVolumeId(text: string): VolumeId | undefined {
  return volumeIdPattern.test(text) ? (text as VolumeId) : undefined;
}

/** Tells volumes and snapshots apart: both have data. */
export function isVolumeId(id: VolumeId | SnapshotId): id is VolumeId {
  return volumeIdPattern.test(id);
}

/** For messages. */
export function kindOf(id: VolumeId | SnapshotId): 'snapshot' | 'volume' {
  return isVolumeId(id) ? 'volume' : 'snapshot';
}

export function parseSnapshotId(text: string): SnapshotId | undefined {
  return snapshotIdPattern.test(text) ? (text as SnapshotId) : undefined;
}

export function parseGroupId(text: string): GroupId | undefined {
  return groupIdPattern.test(text) ? (text as GroupId) : undefined;
}

function digest(...parts: readonly string[]): string {
  const hash = createHash('sha256');
  for (const part of parts) {
    // A length before each part keeps ('a', 'bc') and ('ab', 'c') apart.
    hash.update(`${Buffer.byteLength(part)}:`).update(part);
  }
  return base32Digest(hash.digest());
}

/** 26 lower-case base32 characters of a hash: 130 bits. */
export function base32Digest(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let bitCount = 0;
  for (const byte of bytes) {
    bits = (bits << 8) | byte;
    bitCount += 8;
    while (bitCount >= 5 && text.length < idCharacters) {
      bitCount -= 5;
      text += alphabet.charAt((bits >> bitCount) & 31);
    }
    bits &= (1 << bitCount) - 1;
  }
  return text;
}
