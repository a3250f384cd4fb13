import type { NfsExport } from '../../../kernel/nfs/mount.ts';
import { type NfsOptions, parseNfsOptions } from '../../../kernel/nfs/options.ts';
import type { SectionReader } from '../../../settings/section.ts';
import { asParameter, host, pathInShare } from '../../../settings/shares.ts';
import { absolutePath, list, oneOf, text } from '../../../settings/values.ts';
import { type OnDelete, onDeletes } from './on-delete.ts';

/** Options that only pools on NFS have. */
export interface NfsPoolOptions {
  /** Its parts are empty only if there is a mistake. */
  readonly exported: NfsExport;
  /** The pool's own directory in it, a relative path. */
  readonly path: string;
  readonly options: NfsOptions;
  /** The same as words after -o. */
  readonly mountOptions: string;
  readonly onDelete: OnDelete;
}

const readers = {
  server: host,
  share: absolutePath,
  path: pathInShare,
  mountOptions: list(text, 'mount option'),
  onDelete: oneOf(onDeletes),
};

export const nfsKeys: readonly string[] = Object.keys(readers);

const defaultPath = 'holdfast';

export function readNfsOptions(section: SectionReader): NfsPoolOptions {
  const { mountOptions = [], onDelete, path, server, share } = section.readAll(readers);
  if (!section.has('server')) section.mistake([], 'needs a server: the name or the address of an NFS server');
  if (!section.has('share')) section.mistake([], 'needs a share: a directory that its server exports, such as /export');
  const parsed = parseNfsOptions(mountOptions.flatMap((words) => words.split(',')).map(asParameter));
  if ('mistake' in parsed) section.mistake(['mountOptions'], parsed.mistake);
  else if (parsed.version === '3')
    section.mistake(['mountOptions'], 'asks for NFS 3: the lock of a pool needs NFS 4. Ask for it in the class');
  const options = 'mistake' in parsed ? { parameters: [], version: undefined, port: undefined } : parsed;
  return {
    exported: { host: server ?? '', share: share ?? '' },
    path: path ?? defaultPath,
    options,
    mountOptions: mountOptions.join(','),
    onDelete: onDelete ?? 'delete',
  };
}
