import { createHash } from 'node:crypto';

/**
 * Ids are a kind and 26 lower-case base32 characters (130 bits of SHA-256). Derived, not drawn, so that a replay finds
 * what the first try made (T03); hashed, so that a caller's name never becomes a path or an argument (L08).
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

/** The volume that a path leads to the data of: the kernel shows it of a device. */
export function volumeIdInPath(path: string): VolumeId | undefined {
  return parseVolumeId(/\/(vol-[a-z2-7]{26})\//.exec(path)?.[1] ?? '');
}

/** The id that a name has on this node: a snapshot lies in its source's pool, but its name is one for all pools. */
export function snapshotIdFor(nodeId: string, snapshotName: string): SnapshotId {
  return `snap-${digest(nodeId, snapshotName)}` as SnapshotId;
}

/**
 * The id of a volume that comes and goes with its mount: its handle is one for all pools, since an unpublish names no
 * pool. Digested from two parts, it equals that of no name in any pool.
 */
export function ephemeralIdFor(nodeId: string, handle: string): VolumeId {
  return `vol-${digest(nodeId, handle)}` as VolumeId;
}

export function groupIdFor(nodeId: string, groupName: string): GroupId {
  return `group-${digest(nodeId, groupName)}` as GroupId;
}

/** The id of a group's snapshot of one volume; no name that a caller can choose gives the same. */
export function memberIdFor(groupId: GroupId, volumeId: VolumeId): SnapshotId {
  return `snap-${digest(groupId, volumeId, 'member')}` as SnapshotId;
}

/** The id in `text`, or undefined if it has not the exact shape of one: to a caller that is "no such volume" (DV02). */
export function parseVolumeId(text: string): VolumeId | undefined {
  return volumeIdPattern.test(text) ? (text as VolumeId) : undefined;
}

/** Tells the two kinds of things apart that have data. */
export function isVolumeId(id: VolumeId | SnapshotId): id is VolumeId {
  return volumeIdPattern.test(id);
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
  return base32(hash.digest());
}

function base32(bytes: Uint8Array): string {
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
