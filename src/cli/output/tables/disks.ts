import { formatBytes } from '../../../volume/size.ts';
import type { Shape } from '../shapes.ts';
import { printable } from '../text.ts';

export type DiskItem = Shape<'disks'>['disks'][number];

export const diskColumns = [
  { title: 'DISK' },
  { title: 'SIZE', align: 'right' },
  { title: 'BUS', extra: 3 },
  { title: 'MEDIA', extra: 1 },
  { title: 'MODEL', extra: 4 },
  { title: 'SERIAL', extra: 2 },
  { title: 'FREE' },
  { title: 'WHY NOT, OR ITS NAME', wraps: true },
] as const;

/** @param contested sections for one disk that several free disks match; undefined: not known, nor what takes a disk */
export function diskRow(disk: DiskItem, contested: readonly string[] | undefined): string[] {
  const { bus, free, links, model, path, reasons, rotational, sections = [], serial, sizeBytes } = disk;
  return [
    path,
    formatBytes(BigInt(sizeBytes)),
    bus,
    rotational ? 'hdd' : 'ssd',
    printable(model ?? '-'),
    printable(serial ?? '-'),
    free ? 'yes' : 'no',
    printable(
      [
        free ? nameOf(path, links) : reasons.join('; '),
        ...(free && contested !== undefined ? takers(sections, contested) : []),
      ].join('; '),
    ),
  ];
}

/** The pools that take a free disk without being asked again. */
function takers(sections: readonly string[], contested: readonly string[]): string[] {
  const [first, second] = sections;
  if (first === undefined) return [];
  if (second === undefined && contested.includes(first)) {
    return [`pool ${first} matches it and another free disk: none is taken`];
  }
  return second === undefined
    ? [`pool ${first} takes it`]
    : [`pools ${sections.join(' and ')} match it: none takes it`];
}

/** One that says most to a person: `wwn-…` and `nvme-eui.…` are numbers alone. */
function nameOf(path: string, links: readonly string[]): string {
  const saying = links.filter((link) => !/\/(wwn-|nvme-(eui|uuid|nvme)\.)/.test(link));
  return saying[0] ?? links[0] ?? path;
}
