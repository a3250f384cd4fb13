import { printable } from '../../cli/output/text.ts';
import type { Volume } from './types.ts';

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const;

/** Bytes for people: `1.4 GiB`. */
export function bytesText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = value >= 100 || unit === 0 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits).replace(/\.0+$/, '')} ${units[unit]}`;
}

/** The digits of a size as a number: exact enough for a bar and for people. */
export function numberOf(digits: string | undefined): number {
  return digits === undefined ? 0 : Number(digits);
}

export function percentText(part: number, whole: number): string {
  if (whole <= 0) return '–';
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 1) return '<1 %';
  // Not full until it is.
  return `${Math.min(Math.round(percent), part < whole ? 99 : Number.POSITIVE_INFINITY)} %`;
}

const spans = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60],
  ['s', 1],
] as const;

/** A span of time as kubectl has it: `5s`, `12m`, `3h`, `40d`. */
export function spanText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const span = spans.find(([, length]) => seconds >= length) ?? spans[3];
  return `${Math.floor(seconds / span[1])}${span[0]}`;
}

/** A name that others chose: marks that would reorder or hide text are shown. */
export function nameText(text: string): string {
  return printable(text);
}

export function claimOr({ claim, name }: { claim?: { namespace: string; name: string } | undefined; name: string }) {
  return claim === undefined ? nameText(name) : nameText(`${claim.namespace}/${claim.name}`);
}

export function counted(number: number, word: string, many = `${word}s`): string {
  return `${number.toLocaleString('en')} ${number === 1 ? word : many}`;
}

/** Names, and how many more there are. */
export function someOf(names: readonly string[], max = 4): string {
  const shown = names.slice(0, max).map(nameText).join(', ');
  return names.length > max ? `${shown} and ${names.length - max} more` : shown;
}

/** `ext4`, or the way in which pods see a volume that is no filesystem. */
export function contentOf({ content }: Pick<Volume, 'content'>): string {
  return content.type === 'mount' ? content.fsType : content.type;
}
