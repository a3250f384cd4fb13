import { type WipePolicy, wipePolicies } from '../../../volume/wipe-policy.ts';

/*
 * Records lie in tags of LVM (lvm(8)): each has up to 1024 of the characters a-z, A-Z, 0-9 and _+.-/=!:&#. A document is
 * JSON in base64, in pieces: `holdfast.record.0/2=eyJmb3…`. `cut -d= -f2- | base64 -d` over its pieces shows it.
 */

const prefix = 'holdfast.';
const longestTag = 1024;

/** The role of a logical volume: its one tag without a document. One without any is not ours. */
const lvStates = ['pool', 'thin', 'draft', 'volume', 'snapshot', 'trash', 'removed'] as const;
export type LvState = (typeof lvStates)[number];

export function stateTag(state: LvState): string {
  return `${prefix}${state}`;
}

/** undefined: it is not ours, or says two things of itself. */
export function stateOf(tags: readonly string[]): LvState | undefined {
  const found = lvStates.filter((state) => tags.includes(stateTag(state)));
  return found.length === 1 ? found[0] : undefined;
}

/** The wiping of its data, if its class has chosen one. */
export function wipeTags(policy: WipePolicy | undefined): string[] {
  return policy === undefined ? [] : [`${prefix}wipe=${policy}`];
}

/** undefined: as the pool has it. */
export function wipeOf(tags: readonly string[]): WipePolicy | undefined {
  return wipePolicies.find((policy) => tags.includes(`${prefix}wipe=${policy}`));
}

/** @param name letters, digits and hyphens */
export function documentTags(name: string, text: string): string[] {
  const encoded = Buffer.from(text).toString('base64');
  // Room for two numbers of three digits.
  const pieceLength = longestTag - `${prefix}${name}.000/000=`.length;
  const count = Math.max(1, Math.ceil(encoded.length / pieceLength));
  return Array.from({ length: count }, (_, index) => {
    const piece = encoded.slice(index * pieceLength, (index + 1) * pieceLength);
    return `${prefix}${name}.${index}/${count}=${piece}`;
  });
}

/** All tags that belong to the document, whole or not. */
export function tagsOfDocument(name: string, tags: readonly string[]): string[] {
  return tags.filter((tag) => tag.startsWith(`${prefix}${name}.`));
}

/** The document of a volume that has moved, or is about to: its mark (`catalog/move-mark.ts`). It stays with the volume. */
export const moveDocument = 'move';

/** @returns undefined if there is none; null if it is not whole */
export function readDocument(name: string, tags: readonly string[]): string | undefined | null {
  const pieces = tagsOfDocument(name, tags).map((tag) => pieceOf(tag.slice(prefix.length + name.length + 1)));
  if (pieces.length === 0) return undefined;
  const count = pieces[0]?.count;
  const texts = Array.from({ length: count ?? 0 }, (_, index) => pieces.find((piece) => piece?.index === index)?.text);
  const isWhole = pieces.length === count && pieces.every((piece) => piece?.count === count);
  if (!isWhole || texts.includes(undefined)) return null;
  return Buffer.from(texts.join(''), 'base64').toString('utf8');
}

/** The names of documents that begin so. */
export function documentNames(start: string, tags: readonly string[]): string[] {
  const names = tags.map((tag) => (tag.startsWith(prefix + start) ? tag.slice(prefix.length) : ''));
  return [...new Set(names.map((name) => /^([A-Za-z0-9-]+)\.[0-9]/.exec(name)?.[1] ?? ''))].filter(
    (name) => name !== '',
  );
}

interface Piece {
  readonly index: number;
  readonly count: number;
  readonly text: string;
}

function pieceOf(text: string): Piece | undefined {
  const [, index, count, piece = ''] = /^([0-9]{1,3})\/([0-9]{1,3})=([A-Za-z0-9+/=]*)$/.exec(text) ?? [];
  return index === undefined ? undefined : { index: Number(index), count: Number(count), text: piece };
}

/** One of Holdfast's; others have theirs on the same logical volume. */
export function isOwnTag(tag: string): boolean {
  return tag.startsWith(prefix);
}

/** The tags to remove and to add, to get from the old state to the new one. */
export interface TagChange {
  readonly remove: readonly string[];
  readonly add: readonly string[];
}

export function changeOf(before: readonly string[], after: readonly string[]): TagChange {
  return {
    remove: before.filter((tag) => !after.includes(tag)),
    add: after.filter((tag) => !before.includes(tag)),
  };
}
