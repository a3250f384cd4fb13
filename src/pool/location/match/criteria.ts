import type { Bus } from '../../../kernel/block/bus.ts';
import type { Disk } from '../../../kernel/block/disks.ts';

/** The criteria for a section's disks. All that are given must hold; at least one is given. */
export interface DiskMatch {
  /** Matches a name in /dev/disk/by-id, or the kernel's own permanent name. */
  readonly id?: string | undefined;
  readonly model?: string | undefined;
  readonly minimumBytes?: bigint | undefined;
  readonly maximumBytes?: bigint | undefined;
  readonly rotational?: boolean | undefined;
  readonly bus?: Bus | undefined;
}

export type MatchedDisk = Pick<Disk, 'bus' | 'identity' | 'isRotational' | 'model' | 'sizeBytes'>;

/**
 * A disk of a network comes and goes with what other drivers do, and other machines may have it: only a match that names this
 * bus is for it. @param links what udev has for it in /dev/disk/by-id
 */
export function matches(match: DiskMatch, disk: MatchedDisk, links: readonly string[]): boolean {
  const { bus, id, maximumBytes, minimumBytes, model, rotational } = match;
  const names = [...links.map((link) => link.slice(link.lastIndexOf('/') + 1)), disk.identity ?? ''];
  return (
    (id === undefined || names.some((name) => fitsPattern(id, name))) &&
    (model === undefined || fitsPattern(model, disk.model ?? '')) &&
    (minimumBytes === undefined || disk.sizeBytes >= minimumBytes) &&
    (maximumBytes === undefined || disk.sizeBytes <= maximumBytes) &&
    (rotational === undefined || disk.isRotational === rotational) &&
    (bus === undefined ? disk.bus !== 'network' : disk.bus === bus)
  );
}

/** `*` stands for any text, `?` for one character; all else for itself. An empty text fits nothing. */
export function fitsPattern(pattern: string, text: string): boolean {
  if (text === '') return false;
  let [at, patternAt] = [0, 0];
  /** Where to go on if what follows the last `*` does not fit: that takes one character more. */
  let retry: { at: number; readonly patternAt: number } | undefined;
  while (at < text.length) {
    const wanted = pattern[patternAt];
    if (wanted === '*') {
      retry = { at, patternAt };
      patternAt++;
    } else if (wanted === '?' || wanted === text[at]) {
      at++;
      patternAt++;
    } else if (retry !== undefined) {
      retry.at++;
      at = retry.at;
      patternAt = retry.patternAt + 1;
    } else {
      return false;
    }
  }
  return /^\**$/.test(pattern.slice(patternAt));
}

/** A section of the configuration that takes disks by a match. */
export interface MatchSection {
  readonly name: string;
  readonly match: DiskMatch;
}

/** Their names: of the sections that match a disk, whether it is free or not. @param links what udev has for it in /dev/disk/by-id */
export function sectionsMatching(
  sections: readonly MatchSection[],
  disk: MatchedDisk,
  links: readonly string[],
): string[] {
  return sections.filter(({ match }) => matches(match, disk, links)).map(({ name }) => name);
}

export function twoSections(sections: readonly string[]): string {
  return `pools ${sections.join(' and ')} both match it, so neither takes it: change one of them`;
}
