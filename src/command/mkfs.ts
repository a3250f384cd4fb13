import type { FilesystemType } from '../volume/filesystem.ts';
import { run } from './run.ts';

export interface FormatRequest {
  /** A regular file or a device that is known to be blank and that nobody else can see or use. */
  readonly path: string;
  readonly fsType: FilesystemType;
  /** The logical block size of the device that the file will be seen through. */
  readonly blockSizeBytes: number;
  /** From `parseMkfsOptions`. */
  readonly extraArguments: readonly string[];
}

/**
 * Makes a filesystem. All three programs flush what they wrote before they end.
 * @throws CommandError
 */
export async function format(request: FormatRequest): Promise<void> {
  const { program, args } = mkfsCommand(request);
  await run(program, args);
}

/**
 * Does not discard (a new image has nothing to discard) and leaves tables to be initialised when needed, so that an
 * empty volume stays small.
 */
export function mkfsCommand({ path, fsType, blockSizeBytes, extraArguments }: FormatRequest): {
  readonly program: string;
  readonly args: readonly string[];
} {
  return { program: `mkfs.${fsType}`, args: [...baseArguments(fsType, blockSizeBytes, extraArguments), path] };
}

function baseArguments(fsType: FilesystemType, blockSizeBytes: number, extra: readonly string[]): string[] {
  switch (fsType) {
    case 'ext4': {
      // After an I/O error stop writing instead of spreading it; no blocks held back for root. A caller's own -e or
      // -m comes later and wins. -F: the target is a plain file, mke2fs would ask.
      const lazy = extra.includes('-E') ? [] : ['-E', 'lazy_itable_init=1,lazy_journal_init=1,nodiscard'];
      // mke2fs gives small files blocks of 1024 bytes, which cannot be mounted from a device with larger ones.
      const block = blockSizeBytes > 1024 && !extra.includes('-b') ? ['-b', `${blockSizeBytes}`] : [];
      return ['-q', '-F', '-e', 'remount-ro', '-m', '0', ...block, ...lazy, ...extra];
    }
    case 'xfs': {
      const sector = extra.includes('-s') ? [] : ['-s', `size=${blockSizeBytes}`];
      return ['-q', '-f', '-K', ...sector, ...extra.filter((option) => option !== '-K')];
    }
    case 'btrfs':
      return ['-q', '-f', '-K', ...extra];
  }
}
