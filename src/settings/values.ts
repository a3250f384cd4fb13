import { posix } from 'node:path';
import { formatDuration, parseDuration } from '../volume/duration.ts';
import { InvalidArgument } from '../volume/errors.ts';
import { isLabel, type Labels } from '../volume/labels.ts';
import { exactQuantity, parseQuantity } from '../volume/size.ts';
import { didYouMean } from './nearest.ts';
import { type ReadValue, shown, WrongValue } from './section.ts';

/** Parsers for values of the configuration file. The YAML parser yields whole numbers as bigint, others as number. */

/** Larger than any disk; the kernel counts a file's bytes up to eight times as many. */
export const largestBytes = 1n << 60n;

export function size(minimumBytes: bigint, maximumBytes = largestBytes): ReadValue<bigint> {
  return (value) => {
    const bytes = inWords(value, 'a size, such as 10Gi', parseQuantity);
    if (bytes >= minimumBytes && bytes <= maximumBytes) return bytes;
    const bound =
      bytes < minimumBytes ? `at least ${exactQuantity(minimumBytes)}` : `at most ${exactQuantity(maximumBytes)}`;
    throw new WrongValue(`must be ${bound}, not ${shown(value)}: write a number with a unit, such as 10Gi`);
  };
}

export function duration({ minimumSeconds, maximumSeconds }: Bounds): ReadValue<number> {
  return (value) => {
    const seconds = inWords(value, 'a duration, such as 24h', parseDuration);
    if (seconds >= minimumSeconds && seconds <= maximumSeconds) return seconds;
    const bounds = `${formatDuration(minimumSeconds)} to ${formatDuration(maximumSeconds)}`;
    throw new WrongValue(`must be ${bounds}, not ${shown(value)}`);
  };
}

interface Bounds {
  readonly minimumSeconds: number;
  readonly maximumSeconds: number;
}

/** Accepts both numbers and text of YAML, which are one notation to us. */
function inWords<T>(value: unknown, what: string, parse: (text: string) => T): T {
  // YAML makes a number of 1e9.
  if (typeof value !== 'string' && typeof value !== 'bigint' && typeof value !== 'number') {
    throw new WrongValue(`must be ${what}, not ${shown(value)}`);
  }
  try {
    return parse(String(value));
  } catch (error) {
    if (error instanceof InvalidArgument) throw new WrongValue(error.message);
    throw error;
  }
}

export function number(bounds: {
  readonly minimum: number;
  readonly maximum: number;
  readonly whole?: true;
}): ReadValue<number> {
  const { maximum, minimum, whole } = bounds;
  const what = `a ${whole === true ? 'whole ' : ''}number from ${minimum} to ${maximum}`;
  return (value) => {
    const given = typeof value === 'bigint' ? Number(value) : value;
    const isRight = typeof given === 'number' && given >= minimum && given <= maximum;
    if (isRight && (whole !== true || Number.isInteger(given))) return given;
    throw new WrongValue(`must be ${what}, not ${shown(value)}`);
  };
}

export function oneOf<T extends string>(allowed: readonly T[]): ReadValue<T> {
  return (value) => {
    const found = allowed.find((candidate) => candidate === value);
    if (found !== undefined) return found;
    const hint = typeof value === 'string' ? didYouMean(value, allowed) : '';
    throw new WrongValue(`must be ${listed(allowed)}, not ${shown(value)}${hint}`);
  };
}

function listed(words: readonly string[]): string {
  return words.length === 1 ? `'${words[0]}'` : `one of ${words.join(', ')}`;
}

export const yesOrNo: ReadValue<boolean> = (value) => {
  if (typeof value === 'boolean') return value;
  throw new WrongValue(`must be true or false, not ${shown(value)}`);
};

export const text: ReadValue<string> = (value) => {
  if (typeof value === 'string') return value;
  throw new WrongValue(`must be text, not ${shown(value)}${typeof value === 'object' ? '' : ': put it in quotes'}`);
};

/** Parses a list with at least one entry, and none twice. @param what the noun for one entry: `path of a disk` */
export function list<T>(readItem: ReadValue<T>, what: string): ReadValue<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) throw new WrongValue(`must be a list, each a ${what}, not ${shown(value)}`);
    if (value.length === 0) throw new WrongValue(`must be a list with one ${what} at least`);
    const items = value.map((item: unknown) => readItem(item));
    const twice = items.find((item, index) => items.indexOf(item) !== index);
    if (twice === undefined) return items;
    throw new WrongValue(`has ${shown(twice)} twice`);
  };
}

/** A section of labels, each with a value of text. */
export const labels: ReadValue<Labels> = (value) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new WrongValue(`must be a section with a value for each label, such as { media: nvme }, not ${shown(value)}`);
  }
  const entries = Object.entries(value).map(([key, label]: [string, unknown]): [string, string] => {
    if (!isLabel(key)) throw new WrongValue(`has the label ${shown(key)}: ${labelWords}`);
    if (typeof label === 'string' && isLabel(label)) return [key, label];
    const hint = typeof label === 'string' || typeof label === 'object' ? '' : ': put it in quotes';
    throw new WrongValue(`has ${shown(label)} as ${key}: ${labelWords}${hint}`);
  });
  return Object.fromEntries(entries);
};

const labelWords = "labels and their values are text of 1 to 63 letters, digits, and inner '-', '_' or '.'";

export const absolutePath = pathSuchAs('/srv/holdfast');

/** The path of a disk. */
export const devicePath = pathSuchAs('/dev/disk/by-id/… (holdfast disks)');

/** Normalises a path as the kernel does: `/x//y/` is `/x/y`. */
function pathSuchAs(example: string): ReadValue<string> {
  return (value) => {
    if (typeof value !== 'string' || !value.startsWith('/') || value.includes('\0')) {
      throw new WrongValue(`must be an absolute path, such as ${example}, not ${shown(value)}`);
    }
    return posix.normalize(value).replace(/(?<=.)\/+$/, '');
  };
}
