import type { Disk } from '../../../kernel/block/disks.ts';
import { formatBytes } from '../../../volume/size.ts';

/** Which disks a pool may take: all that is set must hold; of patterns, one. */
export interface DiskMatch {
  /** Patterns of names that the disk itself has (`namesOf`). */
  readonly ids: readonly string[];
  /** Patterns of the kernel's names, /dev/sd*: they may be another disk's after a start. */
  readonly paths: readonly string[];
  readonly models: readonly string[];
  readonly minSizeBytes: bigint | undefined;
  readonly maxSizeBytes: bigint | undefined;
  readonly isRotational: boolean | undefined;
  readonly buses: readonly string[];
  readonly allowRemovable: boolean;
}

/**
 * What a disk is called by what it says of itself, as names in /dev/disk/by-id are made, where that is easily told. The
 * links there are not asked: udev makes them late, and of a disk that was replaced they may lead to the one that came.
 */
export function namesOf({ bus, identities, model }: Pick<Disk, 'bus' | 'identities' | 'model'>): string[] {
  const names = identities.flatMap((identity) => {
    const plain = identity.trim().replace(/\s+/g, '_');
    const [, hex] = /^naa\.([0-9a-f]+)$/.exec(plain) ?? [];
    const modelled = model === undefined ? [] : [`${bus}-${model.trim().replace(/\s+/g, '_')}_${plain}`];
    return [plain, `${bus}-${plain}`, ...modelled, ...(hex === undefined ? [] : [`wwn-0x${hex}`, `scsi-3${hex}`])];
  });
  return [...new Set(names)];
}

/** Why a pool does not want a disk; undefined: it matches. */
export function mismatchOf(disk: Disk, match: DiskMatch): string | undefined {
  const { buses, ids, isRotational, maxSizeBytes, minSizeBytes, models, paths } = match;
  const names = namesOf(disk);
  if (ids.length > 0 && !names.some((name) => matchesAny(name, ids))) return 'its id does not match';
  if (paths.length > 0 && !matchesAny(disk.devicePath, paths)) return 'its path does not match';
  if (models.length > 0 && !matchesAny(disk.model ?? '', models)) return 'its model does not match';
  if (minSizeBytes !== undefined && disk.sizeBytes < minSizeBytes) {
    return `it has less than ${formatBytes(minSizeBytes)}`;
  }
  if (maxSizeBytes !== undefined && disk.sizeBytes > maxSizeBytes) {
    return `it has more than ${formatBytes(maxSizeBytes)}`;
  }
  if (isRotational !== undefined && disk.isRotational !== isRotational) {
    return isRotational ? 'it does not rotate' : 'it rotates';
  }
  if (buses.length > 0 && !buses.includes(disk.bus)) return `it is connected by ${disk.bus}`;
  if (disk.isRemovable && !match.allowRemovable) return 'it is removable';
  // A loop device is somebody's file: nobody means it by a size.
  const isNamed = paths.length > 0 || ids.length > 0;
  if (['loop', 'dm', 'md'].includes(disk.bus) && !isNamed) return `it is no disk of its own (${disk.bus})`;
  return undefined;
}

/** With * for any characters, and ? for one. */
export function matchesAny(text: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => patternOf(pattern).test(text));
}

function patternOf(pattern: string): RegExp {
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${source}$`, 's');
}
