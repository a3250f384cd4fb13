import {
  claimsOf,
  defaultKind,
  type KindName,
  keyAbove,
  keysOf,
  kindNames,
  type PoolConfig,
  type ProgramConfig,
  readPool,
  readProgram,
  withPrograms,
} from '../pool/kinds.ts';
import { didYouMean } from '../settings/nearest.ts';
import { type Mistake, SectionReader } from '../settings/section.ts';
import { number, oneOf, size, text } from '../settings/values.ts';
import { type HostPlaces, type PoolClaim, sharedLocations, unfitLocation } from './locations.ts';
import { chooseSection, isFor, unfitNames } from './node-names.ts';
import { sidedPool, whyNotOneDriver } from './side.ts';
import { type PlacedProblem, YamlDocument } from './yaml-document.ts';

/** The settings of the configuration file for a node. undefined: not in the file. */
export interface Settings {
  /** Empty: `pools: {}`, which only a home may have. */
  readonly pools: readonly PoolConfig[] | undefined;
  readonly defaultPool: string | undefined;
  readonly programs: readonly ProgramConfig[] | undefined;
  readonly expansion: 'node' | 'controller' | undefined;
  readonly attach: 'none' | 'required' | undefined;
  readonly maxVolumesPerNode: number | undefined;
  readonly lockTimeoutSeconds: number | undefined;
  readonly maxInlineSizeBytes: bigint | undefined;
}

/** The settings of the file for all nodes, and for some. */
export interface ConfigFile {
  readonly common: Settings;
  /** By the node name or pattern of each section; a section inherits the common settings that it does not replace. */
  readonly sections: ReadonlyMap<string, Settings>;
}

/** The keys that can be different on some nodes. */
const nodeKeys: readonly string[] = [
  'pools',
  'defaultPool',
  'programs',
  'maxVolumesPerNode',
  'lockTimeoutSeconds',
  'maxInlineSize',
];

/** The keys at the top of the file. */
export const fileKeys: readonly string[] = [...nodeKeys, 'expansion', 'attach', 'nodes'];

/** Smaller sizes are most likely a number whose unit was forgotten. */
export const smallestInlineBytes = 1n << 20n;

/** A DNS label: a pool's name is part of a path and of log lines. */
const poolName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export type ParsedFile<T> = { readonly file: T } | { readonly problems: readonly PlacedProblem[] };

/** Parses the whole file, or returns all mistakes in it, in their order. */
export function parseConfigFile(source: string, places: HostPlaces): ParsedFile<ConfigFile> {
  return parse(source, (reader, mistakes) => {
    const { common, names, section } = readFile(reader, places, mistakes);
    return { common, sections: new Map(names.map((each) => [each, section(each)])) };
  });
}

/** Parses the settings for one node. Mistakes in sections for other nodes are ignored. */
export function parseSettings(source: string, places: HostPlaces, nodeId: string): ParsedFile<Settings> {
  return parse(source, (reader, mistakes) => {
    const { common, names, section } = readFile(reader, places, mistakes);
    const chosen = chooseSection(
      names.filter((each) => isFor(each, nodeId)),
      nodeId,
    );
    if ('names' in chosen) return chosen.names === undefined ? common : section(chosen.names);
    const [one, other] = chosen.undecided;
    reader.mistake(['nodes', other], `is for node ${nodeId}, and so is ${one}: name the node, or change one of them`);
    return common;
  });
}

function parse<T>(source: string, read: (reader: SectionReader, mistakes: Mistake[]) => T): ParsedFile<T> {
  const document = new YamlDocument(source, ['nodes']);
  const mistakes: Mistake[] = [];
  const file = read(new SectionReader(document.content, [], mistakes), mistakes);
  // An unreadable text has only its syntax errors.
  const inContent = document.content === undefined ? [] : mistakes;
  const problems = [...document.problems, ...inContent.map(({ message, path }) => document.place(path, message))];
  if (problems.length === 0) return { file };
  return { problems: problems.sort((a, b) => a.line - b.line || a.column - b.column) };
}

/** The settings for all nodes, the names of the sections, and a function to read each section. */
interface ReadFile {
  readonly common: Settings;
  readonly names: readonly string[];
  section(names: string): Settings;
}

function readFile(reader: SectionReader, places: HostPlaces, mistakes: Mistake[]): ReadFile {
  reader.refuseOthers(fileKeys);
  const common = readSettings(reader, { places, mistakes, path: [] });
  const contents = reader.sections('nodes') ?? new Map<string, unknown>();
  const names = [...contents.keys()];
  for (const each of names) {
    const unfit = unfitNames(each);
    // The section may have been meant for any node.
    if (unfit !== undefined) reader.mistake(['nodes', each], unfit);
  }
  return {
    common,
    names,
    section(each) {
      const path = ['nodes', each];
      const section = new SectionReader(contents.get(each), path, mistakes);
      section.refuseOthers(nodeKeys, (key) => (fileKeys.includes(key) ? 'it is the same for all nodes' : undefined));
      return readSettings(section, { places, mistakes, path, common });
    },
  };
}

interface Surroundings {
  readonly places: HostPlaces;
  readonly mistakes: Mistake[];
  /** The keys that lead to this section. */
  readonly path: readonly string[];
  /** The settings that hold unless this section replaces them. */
  readonly common?: Settings;
}

function readSettings(reader: SectionReader, { common, mistakes, path, places }: Surroundings): Settings {
  const sections = reader.sections('pools');
  const pools: PoolConfig[] = [];
  for (const [name, content] of sections ?? []) {
    const section = new SectionReader(content, [...path, 'pools', name], mistakes);
    refuseMisnamed(name, section);
    const pool = readPoolSection(name, section);
    if (pool !== undefined) pools.push(pool);
  }
  refuseUnfit(pools, places, (poolName, below, message) => reader.mistake(['pools', poolName, ...below], message));
  const mixed = whyNotOneDriver(pools.map(sidedPool));
  if (mixed !== undefined) reader.mistake(['pools'], mixed);
  const defaultPool = reader.read('defaultPool', text);
  const inherits = !reader.has('pools');
  const programs = readPrograms(reader, path, mistakes) ?? common?.programs;
  const chosen = sections === undefined ? common?.pools : pools;
  const names = inherits ? (common?.pools ?? []).map(({ name }) => name) : [...(sections?.keys() ?? [])];
  const hasNews = sections !== undefined || (inherits && (common === undefined || defaultPool !== undefined));
  if (sections?.size !== 0) {
    if (hasNews) checkDefault(reader, defaultPool, names);
  } else if (defaultPool !== undefined) reader.mistake(['defaultPool'], 'there are no pools');
  return {
    pools:
      chosen &&
      withPrograms(chosen, programs ?? [], (poolName, key, message) =>
        reader.mistake(['pools', poolName, key], message),
      ),
    // A default is one of the pools that are named beside it.
    defaultPool: defaultPool ?? (inherits ? common?.defaultPool : undefined),
    programs,
    expansion: reader.read('expansion', oneOf(['node', 'controller'])) ?? common?.expansion,
    attach: reader.read('attach', oneOf(['none', 'required'])) ?? common?.attach,
    maxVolumesPerNode:
      reader.read('maxVolumesPerNode', number({ minimum: 0, maximum: 100_000, whole: true })) ??
      common?.maxVolumesPerNode,
    lockTimeoutSeconds:
      reader.read('lockTimeoutSeconds', number({ minimum: 0, maximum: 86_400 })) ?? common?.lockTimeoutSeconds,
    maxInlineSizeBytes: reader.read('maxInlineSize', size(smallestInlineBytes)) ?? common?.maxInlineSizeBytes,
  };
}

function readPrograms(
  reader: SectionReader,
  path: readonly string[],
  mistakes: Mistake[],
): readonly ProgramConfig[] | undefined {
  const sections = reader.sections('programs');
  if (sections === undefined) return undefined;
  return [...sections].map(([name, content]) =>
    readProgram(name, new SectionReader(content, [...path, 'programs', name], mistakes)),
  );
}

/** undefined: the kind is not known, and so neither is the meaning of the keys. */
function readPoolSection(name: string, section: SectionReader): PoolConfig | undefined {
  const kind = section.has('kind') ? section.read('kind', oneOf(kindNames)) : defaultKind;
  if (kind === undefined) return undefined;
  section.refuseOthers(keysOf(kind), (key) => whereItBelongs(key, kind));
  return readPool(kind, name, section);
}

function whereItBelongs(key: string, kind: KindName): string | undefined {
  const above = keyAbove(kind, key);
  if (above !== undefined) return `in a pool of kind ${kind} it belongs in ${above}`;
  const others = kindNames.filter((other) => keysOf(other).includes(key));
  return others.length === 0
    ? undefined
    : `pools of kind ${others.join(' or ')} have it, and this one is of kind ${kind}`;
}

/** Reports pools whose paths are not allowed, and pools whose paths overlap. */
function refuseUnfit(
  pools: readonly PoolConfig[],
  places: HostPlaces,
  mistake: (poolName: string, below: readonly string[], message: string) => void,
): void {
  const claims: PoolClaim[] = pools.flatMap((pool) =>
    claimsOf(pool, places.dataDirectory).map((claim) => ({ ...claim, poolName: pool.name })),
  );
  for (const { key, poolName, ...claim } of claims) {
    // A path that follows from the pool's name lies among the driver's files, where the driver has put it.
    const message = key === undefined ? undefined : unfitLocation(claim, places);
    if (key !== undefined && message !== undefined) mistake(poolName, [key], message);
  }
  for (const { message, poolName } of sharedLocations(claims)) mistake(poolName, [], message);
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

/** @param names of the existing pools; empty: the configuration names none */
function checkDefault(reader: SectionReader, defaultPool: string | undefined, names: readonly string[]): void {
  const known = names.length === 0 ? ['default'] : names;
  if (defaultPool !== undefined && !known.includes(defaultPool)) {
    const hint = didYouMean(defaultPool, known);
    reader.mistake(['defaultPool'], `there is no such pool; there is ${known.join(', ')}${hint}`);
  }
  if (!reader.has('defaultPool') && known.length > 1 && !known.includes('default')) {
    const list = known.join(', ');
    reader.mistake(['pools'], `with several pools (${list}) none is the default: set defaultPool to one of them`);
  }
}
