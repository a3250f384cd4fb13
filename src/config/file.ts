import { claimsOf, defaultKind, type KindName, keysOf, kindNames, type PoolConfig, readPool } from '../pool/kinds.ts';
import { didYouMean } from '../settings/nearest.ts';
import { type Mistake, SectionReader } from '../settings/section.ts';
import { number, oneOf, size, text } from '../settings/values.ts';
import { type HostPlaces, type PoolClaim, sharedLocations, unfitLocation } from './locations.ts';
import { type PlacedProblem, YamlDocument } from './yaml-document.ts';

/** What the configuration file says. What is left out is undefined. */
export interface ConfigFile {
  readonly pools: readonly PoolConfig[] | undefined;
  readonly defaultPool: string | undefined;
  readonly expansion: 'node' | 'controller' | undefined;
  readonly attach: 'none' | 'required' | undefined;
  readonly maxVolumesPerNode: number | undefined;
  readonly lockTimeoutSeconds: number | undefined;
  readonly maxInlineSizeBytes: bigint | undefined;
}

/** The keys at the top of the file. */
export const fileKeys: readonly string[] = [
  'pools',
  'defaultPool',
  'expansion',
  'attach',
  'maxVolumesPerNode',
  'lockTimeoutSeconds',
  'maxInlineSize',
];

/** Below that it is a number whose unit was forgotten. */
export const smallestInlineBytes = 1n << 20n;

/** A DNS label: a pool's name is part of a path and of log lines. */
const poolName = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

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
  const reader = new SectionReader(content, [], mistakes);
  reader.refuseOthers(fileKeys);
  const sections = reader.sections('pools');
  const pools: PoolConfig[] = [];
  for (const [name, content] of sections ?? []) {
    const section = new SectionReader(content, ['pools', name], mistakes);
    refuseMisnamed(name, section);
    const pool = readPoolSection(name, section);
    if (pool !== undefined) pools.push(pool);
  }
  refuseUnfit(pools, places, mistakes);
  const defaultPool = reader.read('defaultPool', text);
  const names = [...(sections?.keys() ?? [])];
  if (sections?.size === 0) reader.mistake(['pools'], 'name at least one pool, or leave the key out');
  else checkDefault(reader, defaultPool, sections === undefined && reader.has('pools') ? undefined : names);
  return {
    pools: sections === undefined ? undefined : pools,
    defaultPool,
    expansion: reader.read('expansion', oneOf(['node', 'controller'])),
    attach: reader.read('attach', oneOf(['none', 'required'])),
    maxVolumesPerNode: reader.read('maxVolumesPerNode', number({ minimum: 0, maximum: 100_000, whole: true })),
    lockTimeoutSeconds: reader.read('lockTimeoutSeconds', number({ minimum: 0, maximum: 86_400 })),
    maxInlineSizeBytes: reader.read('maxInlineSize', size(smallestInlineBytes)),
  };
}

/** undefined: it is not known what its keys mean. */
function readPoolSection(name: string, section: SectionReader): PoolConfig | undefined {
  const kind = section.has('kind') ? section.read('kind', oneOf(kindNames)) : defaultKind;
  if (kind === undefined) return undefined;
  section.refuseOthers(keysOf(kind), (key) => kindsThatHave(key, kind));
  return readPool(kind, name, section);
}

function kindsThatHave(key: string, kind: KindName): string | undefined {
  const others = kindNames.filter((other) => keysOf(other).includes(key));
  return others.length === 0
    ? undefined
    : `pools of kind ${others.join(' or ')} have it, and this one is of kind ${kind}`;
}

/** Mistakes in where pools lie, each by itself and all together. */
function refuseUnfit(pools: readonly PoolConfig[], places: HostPlaces, mistakes: Mistake[]): void {
  const claims: PoolClaim[] = pools.flatMap((pool) =>
    claimsOf(pool, places.dataDirectory).map((claim) => ({ ...claim, poolName: pool.name })),
  );
  for (const { key, poolName, ...claim } of claims) {
    // What follows from the pool's name is among the driver's own files, where the driver has put it.
    const message = key === undefined ? undefined : unfitLocation(claim, places);
    if (key !== undefined && message !== undefined) mistakes.push({ path: ['pools', poolName, key], message });
  }
  for (const { message, poolName } of sharedLocations(claims)) mistakes.push({ path: ['pools', poolName], message });
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
    const hint = didYouMean(defaultPool, known);
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
