import { type FilesystemType, isServed, type ServedType } from './filesystem.ts';

/** The access modes of CSI that a volume on one node's disk can honour (A01, A05). */
export const singleNodeModes = [
  'SINGLE_NODE_WRITER',
  'SINGLE_NODE_READER_ONLY',
  'SINGLE_NODE_SINGLE_WRITER',
  'SINGLE_NODE_MULTI_WRITER',
] as const;

/** All of CSI: which of them a volume can honour is for its pool to say. */
export const accessModes = [
  ...singleNodeModes,
  'MULTI_NODE_READER_ONLY',
  'MULTI_NODE_SINGLE_WRITER',
  'MULTI_NODE_MULTI_WRITER',
] as const;

export type AccessMode = (typeof accessModes)[number];

/** The way in which a workload uses a volume: as a device, or as a mounted filesystem. */
export type Access =
  | { readonly type: 'block' }
  | {
      readonly type: 'mount';
      /** undefined: the driver chooses (A06). */
      readonly fsType: FilesystemType | ServedType | undefined;
      /** May be sensitive: never logged, stored or put into an error (X02). */
      readonly mountFlags: readonly string[];
    };

/** A volume_capability, parsed. */
export interface VolumeCapability {
  readonly access: Access;
  readonly mode: AccessMode;
}

/** The content of a volume, decided once, at creation. */
export type VolumeContent =
  | { readonly type: 'block' }
  | { readonly type: 'mount'; readonly fsType: FilesystemType }
  /** Files and directories, on a filesystem that is not the volume's own. */
  | { readonly type: 'directory' };

/** Reader-only modes are read-only, whatever `readonly` says (A02). */
export function isReaderOnly(mode: AccessMode): boolean {
  return mode === 'SINGLE_NODE_READER_ONLY' || mode === 'MULTI_NODE_READER_ONLY';
}

/** Answers if several nodes may use the volume at once in this mode. */
export function isMultiNode(mode: AccessMode): boolean {
  return mode.startsWith('MULTI_NODE_');
}

/** Answers if one node may publish the volume at several targets at once in this mode (PB08, PB09). */
export function allowsSeveralTargets(mode: AccessMode): boolean {
  return mode === 'SINGLE_NODE_MULTI_WRITER' || isMultiNode(mode);
}

/**
 * Returns the reason why a volume with this content cannot be used in the requested way; undefined if it can. The
 * caller chooses the code: it differs between Controller and Node (A04).
 */
export function mismatch(content: VolumeContent, access: Access): string | undefined {
  if (access.type === 'block') return whyNotBlock(content);
  switch (content.type) {
    case 'block':
      return 'it is a raw block volume and cannot be mounted as a filesystem';
    case 'directory':
      if (access.fsType === undefined || isServed(access.fsType)) return undefined;
      return `it is a directory, which has no fsType: leave fsType (${access.fsType}) out`;
    case 'mount':
      if (access.fsType === undefined || access.fsType === content.fsType) return undefined;
      return `it holds ${content.fsType}, not ${access.fsType}`;
  }
}

function whyNotBlock(content: VolumeContent): string | undefined {
  switch (content.type) {
    case 'block':
      return undefined;
    case 'directory':
      return 'it is a directory and cannot be used as a raw block volume';
    case 'mount':
      return `it holds an ${content.fsType} filesystem and cannot be used as a raw block volume`;
  }
}

/**
 * The modes in which a volume that was made for this mode can be used: none that allows more. Older sidecars say
 * SINGLE_NODE_WRITER where newer ones say SINGLE_NODE_MULTI_WRITER, so it stands for both.
 */
const usableAs: Readonly<Record<AccessMode, readonly AccessMode[]>> = {
  SINGLE_NODE_WRITER: singleNodeModes,
  SINGLE_NODE_MULTI_WRITER: singleNodeModes,
  SINGLE_NODE_SINGLE_WRITER: ['SINGLE_NODE_WRITER', 'SINGLE_NODE_SINGLE_WRITER', 'SINGLE_NODE_READER_ONLY'],
  SINGLE_NODE_READER_ONLY: ['SINGLE_NODE_READER_ONLY'],
  MULTI_NODE_READER_ONLY: ['SINGLE_NODE_READER_ONLY', 'MULTI_NODE_READER_ONLY'],
  MULTI_NODE_SINGLE_WRITER: [...singleNodeModes, 'MULTI_NODE_READER_ONLY', 'MULTI_NODE_SINGLE_WRITER'],
  MULTI_NODE_MULTI_WRITER: accessModes,
};

/** The content and the access modes that a volume was made for. */
export interface Made {
  readonly content: VolumeContent;
  readonly accessModes: readonly AccessMode[];
}

/**
 * The same as `mismatch` for the whole capability: an access mode must not allow more than the volume was made for
 * (A01).
 */
export function excess(made: Made, { access, mode }: VolumeCapability): string | undefined {
  if (made.accessModes.some((each) => usableAs[each].includes(mode))) return mismatch(made.content, access);
  return mismatch(made.content, access) ?? `it was made for ${made.accessModes.join(', ')}, and ${mode} is more`;
}
