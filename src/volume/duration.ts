import { InvalidArgument } from './errors.ts';

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** The maximum: longer than any useful retention, and short enough that the end can be written as a date. */
const longestSeconds = 3650 * 86_400;

/** Parses a whole duration, `24h`, `7d`, `90m`, `30s` or `0`, into seconds. @throws InvalidArgument */
export function parseDuration(text: string): number {
  const match = /^([0-9]{1,9})([smhd])$/.exec(text === '0' ? '0s' : text);
  const seconds = Number(match?.[1]) * (unitSeconds[match?.[2] ?? ''] ?? Number.NaN);
  if (!(seconds <= longestSeconds)) {
    throw new InvalidArgument(
      `'${text}' is not a duration: write a whole number with s, m, h or d, such as 24h, or 0.`,
    );
  }
  return seconds;
}

/** A duration for people, in its largest whole unit: `24h`, `7d`, `90s`. */
export function formatDuration(seconds: number): string {
  for (const unit of ['d', 'h', 'm']) {
    const factor = unitSeconds[unit] ?? 1;
    if (seconds >= factor && seconds % factor === 0) return `${seconds / factor}${unit}`;
  }
  return `${seconds}s`;
}
