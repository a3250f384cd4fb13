import { InvalidArgument, OutOfRange } from './errors.ts';

/** Sizes are bytes in a bigint, from the wire to the kernel (L12). */

/** CSI's CapacityRange, parsed: at least one of the two is set. */
export interface CapacityRange {
  readonly requiredBytes: bigint | undefined;
  readonly limitBytes: bigint | undefined;
}

/**
 * The size of each volume is a multiple of this, unless its pool has larger pieces (`Traits.granularityBytes`): the
 * largest logical block size of a loop device here.
 */
export const granularityBytes = 4096n;

/** The size of a volume if the request names none (CV32). */
export const defaultVolumeBytes = 1n << 30n;

/** The largest size of a volume: the largest multiple of the granularity in an off_t. */
export const maximumVolumeBytes = ((1n << 63n) - 1n) & ~(granularityBytes - 1n);

export function roundUp(bytes: bigint, multiple: bigint): bigint {
  return ((bytes + multiple - 1n) / multiple) * multiple;
}

/**
 * The size that satisfies `range` and is not smaller than `minimumBytes` (CV05, CV06, CV07, CV09, CV32).
 * @throws OutOfRange if no allowed size fits under the limit
 */
export function chooseSize(
  range: CapacityRange | undefined,
  minimumBytes: bigint,
  multipleBytes = granularityBytes,
): bigint {
  const required = range?.requiredBytes;
  const limit = range?.limitBytes;
  if (required !== undefined && required > maximumVolumeBytes) {
    throw new OutOfRange(`${required} bytes are more than a volume can have (${maximumVolumeBytes} bytes).`);
  }
  const smallest = roundUp(larger(required ?? 0n, minimumBytes), multipleBytes);
  if (limit !== undefined && smallest > limit) {
    throw new OutOfRange(
      `The smallest size for this request is ${smallest} bytes (multiples of ${multipleBytes}), over its limit of ${limit} bytes: raise the limit.`,
    );
  }
  if (required !== undefined) return smallest;
  const wished = larger(roundUp(defaultVolumeBytes, multipleBytes), smallest);
  return limit === undefined || wished <= limit ? wished : limit - (limit % multipleBytes);
}

/** Answers if a volume of this size satisfies the request (CV14, CV17). */
export function satisfies(sizeBytes: bigint, range: CapacityRange | undefined): boolean {
  if (range?.requiredBytes !== undefined && sizeBytes < range.requiredBytes) return false;
  return range?.limitBytes === undefined || sizeBytes <= range.limitBytes;
}

/**
 * The bytes that the copy of a directory may take while it moves: a full volume may take a little more on another
 * filesystem, and XFS has no room for the copy of one that is full.
 */
export function treeCopyBytes(sizeBytes: bigint): bigint {
  return sizeBytes + sizeBytes / 16n + (64n << 20n);
}

export function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

export function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

const unitFactors: Readonly<Record<string, bigint>> = {
  '': 1n,
  Ki: 1n << 10n,
  Mi: 1n << 20n,
  Gi: 1n << 30n,
  Ti: 1n << 40n,
  Pi: 1n << 50n,
  Ei: 1n << 60n,
  k: 10n ** 3n,
  M: 10n ** 6n,
  G: 10n ** 9n,
  T: 10n ** 12n,
  P: 10n ** 15n,
  E: 10n ** 18n,
};

/** Limits the digits: more are no size of a disk, and cost time. */
const quantityPattern =
  /^(?<whole>[0-9]{0,19})(?:\.(?<fraction>[0-9]{0,19}))?(?:(?<unit>Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E|m)|[eE](?<exponent>[+-]?[0-9]{1,2}))?$/;

/**
 * Parses a Kubernetes quantity into bytes: `10Gi`, `1.5Gi`, `500M`, `1e9`, `4096`. A part of a byte is rounded up, as
 * Kubernetes does.
 * @throws InvalidArgument
 */
export function parseQuantity(text: string): bigint {
  const { exponent = '0', fraction = '', unit = '', whole = '' } = quantityPattern.exec(text)?.groups ?? {};
  if (whole === '' && fraction === '') {
    throw new InvalidArgument(
      `'${text}' is not a size${hintOf(text)}: write a number with a unit, such as 10Gi or 500M.`,
    );
  }
  const power = Number(exponent) - fraction.length - (unit === 'm' ? 3 : 0);
  const digits = BigInt(whole + fraction) * (unitFactors[unit] ?? 1n);
  // Kubernetes makes 1 byte of it, which no user wants.
  if (unit === 'm' && digits % 10n ** BigInt(-power) !== 0n) {
    throw new InvalidArgument(
      `'${text}' is not a size: m is a thousandth of a byte (did you mean ${text.slice(0, -1)}M?).`,
    );
  }
  return power >= 0 ? digits * 10n ** BigInt(power) : roundUp(digits, 10n ** BigInt(-power)) / 10n ** BigInt(-power);
}

/** A suggestion for units that are written differently: `10GB`, `10 GiB`, `10g`. */
function hintOf(text: string): string {
  const {
    binary = '',
    letter = '',
    number,
  } = /^(?<number>[0-9.]+) *(?<letter>[kmgtpe])(?<binary>i?)b?$/i.exec(text)?.groups ?? {};
  if (number === undefined) return '';
  const unit = binary === '' && letter.toLowerCase() === 'k' ? 'k' : `${letter.toUpperCase()}${binary.toLowerCase()}`;
  return ` (did you mean ${number}${unit}?)`;
}

/** The bytes as a Kubernetes quantity, exactly: `10Gi`, `1537Ki`, `999`. */
export function exactQuantity(bytes: bigint): string {
  for (const unit of ['Pi', 'Ti', 'Gi', 'Mi', 'Ki']) {
    const factor = unitFactors[unit] ?? 1n;
    if (bytes >= factor && bytes % factor === 0n) return `${bytes / factor}${unit}`;
  }
  return `${bytes}`;
}

/** Bytes for people: `10Gi`, `1.5Gi`, `999`. Exact only for whole units; logs and JSON carry the bytes. */
export function formatBytes(bytes: bigint): string {
  for (const unit of ['Pi', 'Ti', 'Gi', 'Mi', 'Ki']) {
    const factor = unitFactors[unit] ?? 1n;
    if (bytes < factor) continue;
    const tenths = (bytes * 10n + factor / 2n) / factor;
    return tenths % 10n === 0n ? `${tenths / 10n}${unit}` : `${tenths / 10n}.${tenths % 10n}${unit}`;
  }
  return `${bytes}`;
}
