import { didYouMean } from '../../../settings/nearest.ts';
import { parseText, WrongValue } from '../../../settings/section.ts';
import { asParameter, directoryInShare, host } from '../../../settings/shares.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import type { VolumeContext } from '../../node-side.ts';

/** The Gluster volume that a volume is, or a directory in it. */
export interface GlusterContext {
  /** Any of them gives the node the list of bricks. */
  readonly servers: readonly string[];
  readonly volume: string;
  /** In the Gluster volume; empty: all of it. */
  readonly directory: string;
  /** Options of the client, as its arguments. */
  readonly options: readonly string[];
}

/** The keys of this driver, and of PersistentVolumes that the in-tree driver and gluster-csi-driver mounted. */
const keys = ['servers', 'volume', 'subDir', 'path', 'mountOptions'] as const;
const inTreeKeys = ['endpoints', 'endpointsNamespace'] as const;
export const glusterKeys: readonly string[] = [...keys, ...inTreeKeys];

/** @throws InvalidArgument that names the key, and says what to write */
export function parseGlusterContext(context: VolumeContext): GlusterContext {
  const read = <T>(key: (typeof keys)[number], parse: (text: string) => T) =>
    parseText(context[key], parse, (words) => mistake(`${key} ${words}`));
  const endpoints = inTreeKeys.find((key) => context[key] !== undefined);
  if (endpoints !== undefined) {
    throw mistake(
      `${endpoints} is not read: write the hosts of that Endpoints object, such as servers: gluster1,gluster2`,
    );
  }
  const options = read('mountOptions', clientOptions) ?? { words: [], servers: [] };
  const servers = [...new Set([...(read('servers', hosts) ?? []), ...options.servers])];
  if (servers.length === 0) throw mistake('servers is missing: name hosts of the cluster, such as gluster1,gluster2');
  const path = read('path', (text) => text.replace(/^\/+/, ''));
  const [first = '', ...rest] = (path ?? '').split('/');
  if (path !== undefined && (context['volume'] !== undefined || context['subDir'] !== undefined)) {
    throw mistake('path says the same as volume and subDir: write one or the other');
  }
  const volume = path === undefined ? read('volume', volumeName) : read('path', () => volumeName(first));
  if (volume === undefined)
    throw mistake('volume is missing: the name of a GlusterFS volume, as gluster volume list has it');
  const directory =
    path === undefined ? read('subDir', directoryInShare) : read('path', () => directoryInShare(rest.join('/')));
  return { servers, volume, directory: directory ?? '', options: options.words };
}

function hosts(text: string): readonly string[] {
  return text
    .split(',')
    .filter((word) => word.trim() !== '')
    .map((word) => host(word.trim()));
}

/** An argument of the client, and the name of its files. */
function volumeName(text: string): string {
  if (/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(text)) return text;
  throw new WrongValue('must begin with the name of a GlusterFS volume, such as gv0: letters, digits, _ - and .');
}

const count = /^[0-9]{1,9}$/;
const seconds = /^[0-9]{1,6}(\.[0-9]{1,3})?$/;
const flag = /^(yes|no|on|off|true|false|enable|disable)$/;

/** Options of mount.glusterfs(8) that are arguments of glusterfs(8) with the same name, and their values; undefined: none. */
const optionValues: Readonly<Record<string, RegExp | undefined>> = {
  acl: undefined,
  selinux: undefined,
  'attribute-timeout': seconds,
  'background-qlen': count,
  'congestion-threshold': count,
  'direct-io-mode': flag,
  'entry-timeout': seconds,
  'invalidate-limit': count,
  'log-level': /^(CRITICAL|ERROR|WARNING|INFO|DEBUG|TRACE|NONE)$/,
  'lru-limit': count,
  'negative-timeout': seconds,
  'reader-thread-count': count,
  'use-readdirp': flag,
};
const serverOptions: readonly string[] = ['backup-volfile-servers', 'backupvolfile-server'];

function clientOptions(text: string): { readonly words: readonly string[]; readonly servers: readonly string[] } {
  const words: string[] = [];
  const servers: string[] = [];
  for (const option of text.split(',').filter((word) => word.trim() !== '')) {
    const [name, value] = asParameter(option);
    if (serverOptions.includes(name)) {
      servers.push(...(value ?? '').split(':').map((each) => host(each)));
      continue;
    }
    const known = Object.hasOwn(optionValues, name);
    const wanted = optionValues[name];
    if (!known || (wanted === undefined ? value !== undefined : value === undefined || !wanted.test(value))) {
      if (known) throw new WrongValue(`has a wrong value for ${name}: see docs/gluster.md`);
      const meant = didYouMean(name, [...Object.keys(optionValues), ...serverOptions]);
      throw new WrongValue(
        `has ${JSON.stringify(name.slice(0, 40))}, which is not passed on${meant}: see docs/gluster.md`,
      );
    }
    words.push(value === undefined ? `--${name}` : `--${name}=${value}`);
  }
  return { words, servers };
}

function mistake(words: string): InvalidArgument {
  return new InvalidArgument(`volumeAttributes of a gluster volume: ${words}.`);
}

/** The volume for messages: `gv0/data of gluster1,gluster2`. */
export function nameOf({ directory, servers, volume }: GlusterContext): string {
  return `${volume}${directory === '' ? '' : `/${directory}`} of ${servers.join(',')}`;
}
