import { nearest } from '../settings/nearest.ts';
import { type Mistake, SectionReader } from '../settings/section.ts';
import { absolutePath, duration, number, oneOf, size, text } from '../settings/values.ts';
import { type FilesystemType, filesystemTypes } from '../volume/filesystem.ts';
import { formatBytes } from '../volume/size.ts';
import { type Trimming, trimmings } from '../volume/trimming.ts';
import { type GivenLocation, type HostPlaces, sharedLocations, unfitLocation } from './locations.ts';
import { type PlacedProblem, YamlDocument } from './yaml-document.ts';

/** What the configuration file says. What is left out is undefined. */
export interface ConfigFile {
  readonly pools: ReadonlyMap<string, PoolSection> | undefined;
  readonly defaultPool: string | undefined;
  readonly expansion: 'node' | 'controller' | undefined;
  readonly attach: 'none' | 'required' | undefined;
  readonly maxVolumesPerNode: number | undefined;
  readonly lockTimeoutSeconds: number | undefined;
}

export interface PoolSection {
  readonly directory: string | undefined;
  readonly device: string | undefined;
  readonly file: string | undefined;
  readonly size: bigint | undefined;
  readonly reserve: bigint | undefined;
  readonly overcommit: number | undefined;
  readonly defaultFilesystem: FilesystemType | undefined;
  readonly undelete: number | undefined;
  readonly trim: Trimming | undefined;
  readonly sickAfter: number | undefined;
}

const fileKeys = ['pools', 'defaultPool', 'expansion', 'attach', 'maxVolumesPerNode', 'lockTimeoutSeconds'];
const locationKeys = ['directory', 'device', 'file'] as const;
const poolKeys = [
  'kind',
  ...locationKeys,
  ...['size', 'reserve', 'overcommit', 'defaultFilesystem', 'undelete', 'trim', 'sickAfter'],
];

/** A DNS label: a pool's name is part of a path and of log lines. */
const poolName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** mkfs.xfs makes none that is smaller. */
const smallestFileBytes = 300n << 20n;
/** Below that it is a number whose unit was forgotten. */
const smallestReserveBytes = 1n << 20n;
const tenYearsSeconds = 3650 * 86_400;

/** Every mistake in the file at once, in its order, or what it says. */
export function parseConfigFile(
  source: string,
  places: HostPlaces,
): { readonly file: ConfigFile } | { readonly problems: readonly PlacedProblem[] } {
  const document = new YamlDocument(source);
  const mistakes: Mistake[] = [];
  const file = readFile(document.content, places, mistakes);
  // Nothing follows from what could not be read.
  const inContent = document.content === undefined ? [] : mistakes;
  const problems = [...document.problems, ...inContent.map(({ message, path }) => document.place(path, message))];
  if (problems.length === 0) return { file };
  return { problems: problems.sort((a, b) => a.line - b.line || a.column - b.column) };
}

function readFile(content: unknown, places: HostPlaces, mistakes: Mistake[]): ConfigFile {
  const reader = new SectionReader(content, [], fileKeys, mistakes);
  const sections = reader.sections('pools');
  const locations: GivenLocation[] = [];
  const pools = new Map<string, PoolSection>();
  for (const [name, section] of sections ?? []) {
    const pool = new SectionReader(section, ['pools', name], poolKeys, mistakes);
    pools.set(name, readPool(pool));
    locations.push(...givenLocations(name, pool, pools.get(name)));
    refuseMisnamed(name, pool);
  }
  for (const location of locations) {
    const message = unfitLocation(location, places);
    if (message !== undefined) mistakes.push({ path: ['pools', location.poolName, location.key], message });
  }
  for (const { message, poolName } of sharedLocations([...pools.keys()], locations, places)) {
    mistakes.push({ path: ['pools', poolName], message });
  }
  const defaultPool = reader.read('defaultPool', text);
  if (sections?.size === 0) reader.mistake(['pools'], 'name at least one pool, or leave the key out');
  else checkDefault(reader, defaultPool, sections === undefined && reader.has('pools') ? undefined : [...pools.keys()]);
  return {
    pools: sections === undefined ? undefined : pools,
    defaultPool,
    expansion: reader.read('expansion', oneOf(['node', 'controller'])),
    attach: reader.read('attach', oneOf(['none', 'required'])),
    maxVolumesPerNode: reader.read('maxVolumesPerNode', number({ minimum: 0, maximum: 100_000, whole: true })),
    lockTimeoutSeconds: reader.read('lockTimeoutSeconds', number({ minimum: 0, maximum: 86_400 })),
  };
}

function readPool(reader: SectionReader): PoolSection {
  reader.read('kind', oneOf(['image']));
  const pool: PoolSection = {
    directory: reader.read('directory', absolutePath),
    device: reader.read('device', absolutePath),
    file: reader.read('file', absolutePath),
    size: reader.read('size', size(smallestFileBytes)),
    reserve: reader.read('reserve', size(smallestReserveBytes)),
    overcommit: reader.read('overcommit', number({ minimum: 1, maximum: 1000 })),
    defaultFilesystem: reader.read('defaultFilesystem', oneOf(filesystemTypes)),
    undelete: reader.read('undelete', duration({ minimumSeconds: 0, maximumSeconds: tenYearsSeconds })),
    // Helm, and all else that reads YAML 1.1, makes false of a plain off.
    trim: reader.read('trim', (value) => oneOf(trimmings)(value === false ? 'off' : value)),
    sickAfter: reader.read('sickAfter', duration({ minimumSeconds: 1, maximumSeconds: 3600 })),
  };
  const given = locationKeys.filter((key) => reader.has(key));
  if (given.length > 1) reader.mistake([given[1] ?? ''], `set only one of ${given.join(', ')}`);
  if (reader.has('size') && (reader.has('directory') || reader.has('device'))) {
    reader.mistake(['size'], 'only a backing file has a size; a directory or a device has that of its disk');
  }
  if (pool.size !== undefined && pool.reserve !== undefined && pool.reserve >= pool.size) {
    reader.mistake(['reserve'], `must be less than the size of the pool, ${formatBytes(pool.size)}`);
  }
  return pool;
}

function givenLocations(poolName: string, reader: SectionReader, pool: PoolSection | undefined): GivenLocation[] {
  return locationKeys.flatMap((key) => {
    const path = pool?.[key];
    return reader.has(key) && path !== undefined ? [{ poolName, key, path }] : [];
  });
}

function refuseMisnamed(name: string, reader: SectionReader): void {
  if (poolName.test(name)) return;
  const better = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 63);
  const hint = poolName.test(better) ? `, such as ${better}` : '';
  reader.mistake([], `a pool name has 1 to 63 lower-case letters, digits and inner dashes${hint}`);
}

/** @param names undefined if it is not known which pools there are meant to be */
function checkDefault(reader: SectionReader, defaultPool: string | undefined, names: string[] | undefined): void {
  if (names === undefined) return;
  const known = names.length === 0 ? ['default'] : names;
  if (defaultPool !== undefined && !known.includes(defaultPool)) {
    const meant = nearest(defaultPool, known);
    const hint = meant === undefined ? '' : ` (did you mean '${meant}'?)`;
    reader.mistake(['defaultPool'], `there is no such pool; there is ${known.join(', ')}${hint}`);
  }
  if (!reader.has('defaultPool') && known.length > 1 && !known.includes('default')) {
    const list = known.join(', ');
    reader.mistake(
      ['pools'],
      `with several pools (${list}) none is the default by itself: set defaultPool to one of them`,
    );
  }
}
