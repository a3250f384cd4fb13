import { buses } from '../../../kernel/block/bus.ts';
import type { SectionReader } from '../../../settings/section.ts';
import { oneOf, size, text, yesOrNo } from '../../../settings/values.ts';
import { formatBytes } from '../../../volume/size.ts';
import type { DiskMatch } from './criteria.ts';

/** Below that it is a number whose unit was forgotten. */
const smallestBytes = 1n << 20n;

const sizeReaders = { minimum: size(smallestBytes), maximum: size(smallestBytes) };
const readers = { id: text, model: text, rotational: yesOrNo, bus: oneOf(buses) };

/** The criteria for a section's disks. Mistakes are reported with their places. */
export function readMatch(section: SectionReader): DiskMatch {
  const keys = [...Object.keys(readers), 'size'];
  section.refuseOthers(keys);
  if (!keys.some((key) => section.has(key))) {
    section.mistake([], `needs at least one of ${keys.join(', ')}: a section without any would take every free disk`);
  }
  const { bus, id, model, rotational } = section.readAll(readers);
  const sizes = section.below('size');
  sizes?.refuseOthers(Object.keys(sizeReaders));
  const { maximum, minimum } = sizes?.readAll(sizeReaders) ?? {};
  if (sizes !== undefined && !sizes.has('minimum') && !sizes.has('maximum')) {
    sizes.mistake([], 'needs a minimum, a maximum, or both, such as { minimum: 3Ti }');
  }
  if (minimum !== undefined && maximum !== undefined && minimum > maximum) {
    sizes?.mistake(['minimum'], 'is more than the maximum');
  }
  for (const [key, pattern] of Object.entries({ id, model })) {
    if (pattern === '') section.mistake([key], "is empty: write a pattern, such as 'scsi-SHGST_*'");
  }
  return { id, model, minimumBytes: minimum, maximumBytes: maximum, rotational, bus };
}

/** For `holdfast pools`, of a section without a disk: the match in the words of its section. */
export function describeMatch({ bus, id, maximumBytes, minimumBytes, model, rotational }: DiskMatch): string {
  const size = (bytes: bigint | undefined) => (bytes === undefined ? undefined : formatBytes(bytes));
  const given = { id, model, minimum: size(minimumBytes), maximum: size(maximumBytes), rotational, bus };
  return Object.entries(given)
    .flatMap(([key, value]) => (value === undefined ? [] : [`${key} ${value}`]))
    .join(', ');
}
