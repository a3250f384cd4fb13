import { type ReadValue, type SectionReader, shown, WrongValue } from '../../../settings/section.ts';
import { oneOf, size } from '../../../settings/values.ts';
import { type WipePolicy, wipePolicies } from '../../wipe/wipe.ts';
import type { DiskMatch } from './match.ts';

/** What only disk pools are configured by. */
export interface DiskOptions {
  readonly match: DiskMatch;
  readonly wipe: WipePolicy;
}

const yesOrNo: ReadValue<boolean> = (value) => {
  if (typeof value === 'boolean') return value;
  throw new WrongValue(`must be true or false, not ${shown(value)}`);
};

/** One pattern, or a list of them. */
const patterns: ReadValue<readonly string[]> = (value) => {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const words = list.filter((each): each is string => typeof each === 'string' && each !== '');
  if (words.length === list.length && words.length > 0) return words;
  throw new WrongValue(`must be a pattern, such as nvme-*, or a list of patterns, not ${shown(value)}`);
};

const readers = {
  id: patterns,
  path: patterns,
  model: patterns,
  bus: patterns,
  minSize: size(1n),
  maxSize: size(1n),
  rotational: yesOrNo,
  removable: yesOrNo,
  wipe: oneOf(wipePolicies),
};

export const diskKeys: readonly string[] = Object.keys(readers);

const choosing = ['id', 'path', 'model', 'bus', 'minSize', 'maxSize', 'rotational'] as const;

export function readDiskOptions(section: SectionReader): DiskOptions {
  const { bus, id, maxSize, minSize, model, path, removable, rotational, wipe } = section.readAll(readers);
  if (!choosing.some((key) => section.has(key))) {
    section.mistake([], `needs to say which disks it may take: ${choosing.join(', ')}`);
  }
  if (minSize !== undefined && maxSize !== undefined && minSize > maxSize) {
    section.mistake(['maxSize'], 'must not be less than minSize');
  }
  return {
    match: {
      ids: id ?? [],
      paths: path ?? [],
      models: model ?? [],
      buses: bus ?? [],
      minSizeBytes: minSize,
      maxSizeBytes: maxSize,
      isRotational: rotational,
      allowRemovable: removable ?? false,
    },
    wipe: wipe ?? 'discard',
  };
}

/** What is matched, in words. */
export function describeMatch({ match }: DiskOptions): string {
  const words = [...match.ids, ...match.paths, ...match.models, ...match.buses];
  return words.length === 0 ? 'by size' : words.join(' ');
}
