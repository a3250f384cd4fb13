import type { Config } from '../../config/config.ts';
import { standsForSeveral } from '../../pool/kinds.ts';
import { type Finding, fail, ok, warn } from '../../pool/sight.ts';
import { seenDisks } from '../disks.ts';
import type { DiskItem } from '../output/tables/disks.ts';

/** Disks that fit the `match` of a section, and have no pool: why that is so. */
export async function checkMatches({ pools }: Config): Promise<Finding[]> {
  if (!pools.some(standsForSeveral)) return [];
  const { disks, missing } = await seenDisks();
  return [
    ...disks.flatMap(findingsOf),
    ...missing.map((name) =>
      warn(`disk ${name}`, 'it does not answer', 'See dmesg, and "Sick disks" in docs/operations.md.'),
    ),
  ];
}

function findingsOf({ free, path, reasons, sections = [] }: DiskItem): Finding[] {
  const check = `disk ${path}`;
  const names = sections.join(' and ');
  if (sections.length === 0) return [];
  if (free && sections.length > 1) {
    return [fail(check, `pools ${names} both match it: neither takes it`, 'Change match of one of them.')];
  }
  if (free) return [ok(check, `it is free, and pool ${names} takes it`)];
  return [ok(check, `it matches ${names}: ${reasons.join('; ')}`)];
}
