import type { Mutant } from '../mutant.ts';

const foreign = 'test/pool/foreign-disks.test.ts';
const partitions = 'test/pool/disk-partitions.test.ts';
const table = { file: 'src/pool/kinds/disk/gpt.ts', killer: 'src/pool/kinds/disk/gpt.test.ts' } as const;

/** A pool of disks takes none that holds anything, and none for another one. */
export const wholeDiskMutants: readonly Mutant[] = [
  {
    name: 'a disk is blank only if its beginning is',
    ...table,
    text: "if (isZeros(beginning) && isZeros(end)) return { kind: 'none' };",
    replacement: "if (isZeros(end)) return { kind: 'none' };",
  },
  {
    name: 'a disk is blank only if its end is: the second copy of a table lies there',
    ...table,
    text: "if (isZeros(beginning) && isZeros(end)) return { kind: 'none' };",
    replacement: "if (isZeros(beginning)) return { kind: 'none' };",
  },
  {
    name: 'a table of ours was begun only if nothing else is there',
    ...table,
    text: 'isPartOf(beginning, expected, sectorBytes) && isPartOf(end, expectedEnd, sectorBytes)',
    replacement: 'isPartOf(end, expectedEnd, sectorBytes)',
  },
  {
    name: 'a disk whose table is lost, but not the label of its volume, is not taken',
    file: 'src/pool/kinds/disk/candidate.ts',
    text: "if (label.kind === 'used') return",
    replacement: "if (label.kind === ('never' as string)) return",
    killer: foreign,
    only: 'who lost its first sector',
  },
  {
    name: 'a damaged label is not passed over for an older one that gives the disk away',
    file: 'src/pool/kinds/disk/label.ts',
    text: "if (!isCutShort && label.use.state !== 'volume') throw",
    replacement: 'if (false as boolean) throw',
    killer: 'src/pool/kinds/disk/label.test.ts',
  },
  {
    name: 'a free disk whose table somebody wrote over is not given away',
    file: 'src/pool/kinds/disk/own-disk.ts',
    text: 'return read.table.isWhole;',
    replacement: 'return true;',
    killer: foreign,
    only: 'a free one is not given away',
  },
  {
    name: 'a free disk that somebody has for himself is not given away',
    file: 'src/pool/kinds/disk/own-disk.ts',
    text: 'await using device = await openDiskAlone(this.queue, this.disk);',
    replacement: 'await using device = await openDisk(this.queue, this.disk, constants.O_RDWR);',
    killer: foreign,
    only: 'a free one is not given away',
  },
  {
    name: 'of two disks with one label neither is used',
    file: 'src/pool/kinds/disk/disks.ts',
    text: '(disks.length === 1 ? disks : [])',
    replacement: 'disks.slice(0, 1)',
    killer: 'test/pool/disks.test.ts',
    only: 'that has a copy is not used',
  },
  {
    name: 'a disk of another pool is not used',
    file: 'src/pool/kinds/disk/disks.ts',
    text: "(surveyed.label?.label.pool ?? '') !== pool",
    replacement: 'surveyed.label === undefined',
    killer: 'test/pool/disks.test.ts',
    only: 'of another pool is left alone',
  },
  {
    name: 'a volume that has all of its disk does not grow, and nothing in the trash gives way to it',
    file: 'src/pool/catalog/volumes.ts',
    text: 'if (backend.space.pieces !== undefined) {',
    replacement: 'if (false as boolean) {',
    killer: 'test/pool/disks.test.ts',
    only: 'the smallest that fits',
  },
  {
    name: 'the partition of a raw block volume is held while it is attached',
    file: 'src/pool/kinds/disk/attacher.ts',
    text: 'if (persistent) await this.#hold(id, own, partition);',
    replacement: 'if (persistent && id === own.diskId) await this.#hold(id, own, partition);',
    killer: partitions,
    only: 'stays while it is attached',
  },
  {
    name: 'it is held again by the next driver',
    file: 'src/pool/kinds/disk/attacher.ts',
    text: "if (use.state === 'volume' && use.record.content.type === 'block') {",
    replacement: "if (use.state === 'volume' && use.record.content.type === ('never' as string)) {",
    killer: partitions,
    only: 'stays while it is attached',
  },
  {
    name: 'a label is written past the node that udev watches',
    file: 'src/pool/kinds/disk/own-disk.ts',
    text: 'openUnwatched(queue, disk, (node) => openFile(queue, node, constants.O_RDWR)),',
    replacement: 'openUnwatched(queue, disk, (node) => openFile(queue, node.path, constants.O_RDWR)),',
    killer: partitions,
    only: 'hears of no write',
  },
];
