/* Options of NFS, as people write them for mount(8) and nfs(5), become what fsconfig(2) takes. */

/** A parameter for fsconfig(2): a flag, or a key with its value. */
type Parameter = readonly [key: string] | readonly [key: string, value: string];

const flags: ReadonlySet<string> = new Set([
  ...['hard', 'soft', 'softerr', 'softreval', 'nosoftreval', 'cto', 'nocto', 'ac', 'noac'],
  ...['rdirplus', 'nordirplus', 'resvport', 'noresvport', 'fsc', 'nofsc'],
]);

const number = /^[0-9]{1,9}$/;
const valued: ReadonlyMap<string, RegExp> = new Map([
  ...['timeo', 'retrans', 'rsize', 'wsize', 'nconnect', 'max_connect'].map((key) => [key, number] as const),
  ...['acregmin', 'acregmax', 'acdirmin', 'acdirmax', 'actimeo'].map((key) => [key, number] as const),
  ['proto', /^tcp6?$/],
  ['port', number],
  ['sec', /^(sys|none|krb5|krb5i|krb5p)$/],
  ['lookupcache', /^(all|none|pos|positive)$/],
  ['local_lock', /^(all|flock|posix|none)$/],
  ['write', /^(lazy|eager|wait)$/],
]);

/** Words for mount.nfs(8) alone, and for versions of NFS or of the kernel in which they mean something. */
const wordsForOthers: ReadonlySet<string> = new Set([
  'bg',
  'fg',
  'lock',
  'intr',
  'nointr',
  'tcp',
  'sharecache',
  'nosharecache',
]);
const keysForOthers: ReadonlySet<string> = new Set(['retry', 'mountproto', 'mountvers']);
/** Options of NFS 3; they mean nothing in NFS 4. */
const isOfVersion3 = ([key, value]: Parameter) =>
  value === undefined ? key === 'nolock' : key === 'mountport' && number.test(value);

/** The versions that are tried if no version is asked for, the better one first. */
export const nfsVersions = ['4.2', '4.1'] as const;
const allVersions = [...nfsVersions, '3'] as const;
export type NfsVersion = (typeof allVersions)[number];

export interface NfsOptions {
  readonly parameters: readonly Parameter[];
  /** Undefined: the best of NFS 4 that the server has. */
  readonly version: NfsVersion | undefined;
  /** Undefined: 2049. */
  readonly port: number | undefined;
  /** Options for a mount of NFS 3 alone; unset: none. */
  readonly version3?: readonly Parameter[];
}

/** Options with which each request ends: after 5 s it is sent again, after another 10 s it fails. */
export function softly({ parameters, ...options }: NfsOptions): NfsOptions {
  const kept = parameters.filter(([key]) => !['hard', 'soft', 'softerr', 'timeo', 'retrans'].includes(key));
  return { ...options, parameters: [...kept, ['softerr'], ['timeo', '50'], ['retrans', '1']] };
}

/**
 * Parses options that are for the filesystem. Of an option that is not taken the answer says why, without repeating it: it
 * may be a secret (X02).
 */
export function parseNfsOptions(given: readonly Parameter[]): NfsOptions | { readonly mistake: string } {
  const parameters: Parameter[] = [];
  const version3: Parameter[] = [];
  let version: NfsVersion | undefined;
  let port: number | undefined;
  for (const [index, parameter] of given.entries()) {
    const [key, value] = parameter;
    const wrong = (why: string) => ({ mistake: `option ${index + 1} of ${given.length} ${why}` });
    if (value === undefined ? wordsForOthers.has(key) : keysForOthers.has(key)) continue;
    if (isOfVersion3(parameter)) {
      version3.push(parameter);
      continue;
    }
    if (key === 'vers' || key === 'nfsvers') {
      const found = allVersions.find((each) => each === value);
      if (found === undefined && value !== '4')
        return wrong('asks for a version of NFS that is not mounted: 4.2, 4.1 and 3 are');
      version = found;
    } else if (key === 'minorversion') {
      version = nfsVersions.find((each) => each === `4.${value}`);
      if (version === undefined) return wrong('asks for a version of NFS that is not mounted: 4.2, 4.1 and 3 are');
    } else if (value === undefined ? flags.has(key) : valued.get(key)?.test(value) === true) {
      if (key === 'port') port = Number(value);
      else parameters.push(parameter);
    } else {
      return wrong('is none that a volume on NFS takes (docs/nfs.md has the list)');
    }
  }
  if (port !== undefined && (port < 1 || port > 65_535)) return { mistake: 'the option port is no port of TCP' };
  return { parameters, version, port, ...(version3.length > 0 && { version3 }) };
}
