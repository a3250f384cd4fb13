import { type NfsExport, nfsSource } from '../../../kernel/nfs/mount.ts';
import { type NfsOptions, parseNfsOptions } from '../../../kernel/nfs/options.ts';
import { parseText, WrongValue } from '../../../settings/section.ts';
import { asParameter, directoryInShare, host } from '../../../settings/shares.ts';
import { absolutePath } from '../../../settings/values.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import { parseVolumeId } from '../../../volume/id.ts';
import { mode } from './values.ts';

/** The volume_context of a volume on NFS. Its keys are those of csi-driver-nfs, which writes some in small letters. */
export interface NfsContext {
  readonly exported: NfsExport;
  /** In the share; empty: all of it. */
  readonly directory: string;
  /** The mode that its directory is given when it is mounted; undefined: it is left as it is. */
  readonly mode: number | undefined;
  readonly options: NfsOptions;
}

const keys = ['server', 'share', 'subDir', 'mountPermissions', 'mountOptions'] as const;
type Key = (typeof keys)[number];

/** Each key, and as csi-driver-nfs writes it. */
export const contextKeys: readonly string[] = [...new Set(keys.flatMap((key) => [key, key.toLowerCase()]))];

/** @throws InvalidArgument that names the key, and says what to write */
export function readNfsContext(context: Readonly<Record<string, string>>): NfsContext {
  const read = <T>(key: Key, parse: (text: string) => T) => {
    const mistake = (words: string) => new InvalidArgument(`volume_context: ${key} ${words}.`);
    return parseText(context[key] ?? context[key.toLowerCase()], parse, mistake);
  };
  const server = read('server', host);
  const share = read('share', absolutePath);
  if (server === undefined || share === undefined) {
    throw new InvalidArgument('volume_context needs server and share: an NFS server, and what it exports.');
  }
  return {
    exported: { host: server, share },
    directory: read('subDir', directoryInShare) ?? '',
    mode: read('mountPermissions', mode),
    options: read('mountOptions', mountOptions) ?? { parameters: [], version: undefined, port: undefined },
  };
}

/** Writes a context for `readNfsContext`. */
export function writeNfsContext(
  { directory, exported }: Pick<NfsContext, 'directory' | 'exported'>,
  { mountOptions, mountPermissions }: { readonly mountOptions: string; readonly mountPermissions?: string | undefined },
): Record<string, string> {
  const { host: server, share } = exported;
  return {
    ...{ server, share, subDir: directory },
    ...(mountPermissions === undefined ? {} : { mountPermissions }),
    ...(mountOptions === '' ? {} : { mountOptions }),
  };
}

/** The source of a mount of the volume, as the kernel shows it. */
export function sourceOf({
  directory,
  exported: { host: server, share },
}: Pick<NfsContext, 'directory' | 'exported'>): string {
  return nfsSource({ host: server, share: pathIn(share, directory) });
}

/** The path of a directory in a share, as its server has it. */
export function pathIn(share: string, directory: string): string {
  return directory === '' ? share : `${share === '/' ? '' : share}/${directory}`;
}

function mountOptions(text: string): NfsOptions {
  const parsed = parseNfsOptions(
    text
      .split(',')
      .filter((word) => word.trim() !== '')
      .map(asParameter),
  );
  if ('mistake' in parsed) throw new WrongValue(`has a mistake: ${parsed.mistake}`);
  return parsed;
}

/** Answers if a directory is that of a volume of a pool, and not one that a person named. */
export function isOwn(directory: string): boolean {
  const [data, id = '', volumes] = directory.split('/').reverse();
  return data === 'data' && volumes === 'volumes' && parseVolumeId(id) !== undefined;
}
