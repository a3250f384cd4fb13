import type { Content } from '../../../kernel/block/blkid.ts';
import { linksToDisks } from '../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { VolumeContent } from '../../../volume/capability.ts';
import { parseFilesystemType } from '../../../volume/filesystem.ts';
import type { FoundDisk } from '../../location/disk/found-disk.ts';

/** The content with which a foreign disk becomes a volume. @returns the reason why it cannot become one, if it cannot */
export function contentOf(content: Content): VolumeContent | string {
  switch (content.kind) {
    case 'filesystem': {
      const fsType = parseFilesystemType(content.type);
      if (fsType !== undefined && content.uuid !== undefined) return { type: 'mount', fsType };
      return `it holds ${content.type}, and no filesystem that a volume can have`;
    }
    case 'blank':
      return { type: 'block' };
    case 'partitions':
      return 'it holds a partition table without partitions: clear it, or name another disk';
    case 'ambivalent':
      return 'it holds signatures of several kinds';
    case 'other':
      return `it holds ${content.type}, and no filesystem that a volume can have`;
  }
}

/** True if it is worth mentioning that a disk can be kept as it is. */
export function holdsFilesystemOfVolumes(content: Content): boolean {
  const found = contentOf(content);
  return typeof found !== 'string' && found.type === 'mount';
}

/** The reason why a disk does not become a volume as a whole; undefined: no partition keeps it from that. */
export async function whyNotWhole(
  queue: DiskQueue,
  { path, place }: Pick<FoundDisk, 'path' | 'place'>,
): Promise<string | undefined> {
  const { disk, part } = place;
  if (part !== undefined || disk.partitions.length === 0) return undefined;
  const links = await linksToDisks(queue);
  return partitionAdvice(disk.partitions.map(({ name }) => partitionPath(name, path, links.get(name) ?? [])));
}

/** The name that is most like that of its disk, and lasts if there is one that does. */
export function partitionPath(name: string, diskPath: string, links: readonly string[]): string {
  return links.find((link) => link.startsWith(`${diskPath}-part`)) ?? links[0] ?? `/dev/${name}`;
}

const maxListed = 3;

/** @param paths at least one */
export function partitionAdvice(paths: readonly string[]): string {
  if (paths.length === 1) return `it has 1 partition. Name that as device instead: ${paths[0]}`;
  const more = paths.length > maxListed ? ', …' : '';
  return `it has ${paths.length} partitions. Name one as device instead: ${paths.slice(0, maxListed).join(', ')}${more}`;
}
