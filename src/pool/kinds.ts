import { type Disk, listDisks } from '../kernel/block/disks.ts';
import { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { SectionReader } from '../settings/section.ts';
import type { Backend } from './backend.ts';
import { type DiskFinder, LinkFinder } from './cloud-disk/attached/finder.ts';
import { type CloudName, clouds, type Instance } from './cloud-disk/instance.ts';
import type { Claim, Configured, LookRequest, OpenContext, PoolKind, PoolWatch, WatchContext } from './kind.ts';
import type { EbsPoolOptions } from './kinds/aws-ebs/config.ts';
import { ebsKind } from './kinds/aws-ebs/kind.ts';
import { ebsNodeKind } from './kinds/aws-ebs/node.ts';
import type { DirectoryOptions } from './kinds/directory/config.ts';
import { directoryKind } from './kinds/directory/kind.ts';
import type { DiskOptions } from './kinds/disk/config.ts';
import { diskKind } from './kinds/disk/kind.ts';
import { diskSections } from './kinds/disk/match/expand.ts';
import { sectionsIn } from './kinds/disk/match/section.ts';
import { type ExecPoolOptions, type ProgramConfig, readProgram, withProgram } from './kinds/exec/config.ts';
import { type ExecNodeOptions, execNodeKind, openExecNode, type Programs } from './kinds/exec/kind.ts';
import { execKind } from './kinds/exec/pool-kind.ts';
import type { GcePoolOptions } from './kinds/gce-pd/config.ts';
import { gceKind } from './kinds/gce-pd/kind.ts';
import { gceNodeKind } from './kinds/gce-pd/node.ts';
import { glusterNodeKind, openGlusterNode } from './kinds/gluster/kind.ts';
import type { ImageOptions } from './kinds/image/config.ts';
import { imageKind } from './kinds/image/kind.ts';
import { iscsiNodeKind } from './kinds/iscsi/kind.ts';
import type { LvmOptions } from './kinds/lvm/config.ts';
import { lvmKind } from './kinds/lvm/kind.ts';
import type { NfsPoolOptions } from './kinds/nfs/config.ts';
import { nfsKind } from './kinds/nfs/kind.ts';
import { nfsNodeKind } from './kinds/nfs/node.ts';
import { nvmeTcpNodeKind } from './kinds/nvme-tcp/kind.ts';
import { encryptable } from './layers/luks/named/kind.ts';
import { encryptedByName } from './layers/luks/seen.ts';
import { type MatchSection, sectionsMatching } from './location/match/criteria.ts';
import { type Member, readMembers } from './location/match/members.ts';
import type { OtherPools } from './location/match/one-disk.ts';
import type { NodeKind } from './node-side.ts';
import type { Pool, Seen, SeenVolume } from './pool.ts';
import { readSettings } from './settings.ts';
import type { Finding, PoolPlace, PoolSight } from './sight.ts';

/** The options that only pools of one kind have, for each kind. */
interface OwnOptions {
  readonly image: ImageOptions;
  readonly directory: DirectoryOptions;
  readonly lvm: LvmOptions;
  readonly disk: DiskOptions;
  readonly nfs: NfsPoolOptions;
  readonly exec: ExecPoolOptions;
  readonly 'aws-ebs': EbsPoolOptions;
  readonly 'gce-pd': GcePoolOptions;
}

export type KindName = keyof OwnOptions;

/** The kinds of pool there are. Nothing outside of this file names one. */
const kinds: { readonly [Kind in KindName]: PoolKind<OwnOptions[Kind]> } = {
  image: imageKind,
  directory: directoryKind,
  lvm: lvmKind,
  disk: diskKind,
  nfs: nfsKind,
  exec: execKind,
  'aws-ebs': ebsKind,
  'gce-pd': gceKind,
};

/** The kinds whose volumes any node of the cluster can reach, as nodes know them. */
const nodeKinds: readonly NodeKind[] = [nfsNodeKind, encryptable(nvmeTcpNodeKind), encryptable(iscsiNodeKind)];

/** The kinds whose volumes a cloud attaches to nodes. */
const cloudNodeKinds: readonly ((finder?: DiskFinder) => NodeKind)[] = [ebsNodeKind, gceNodeKind];

/** The same, with programs that the configuration names. Only their contexts are read: nothing is run. */
export function nodeKindsWith(programs: Programs): readonly NodeKind[] {
  const clouds = cloudNodeKinds.map((kind) => encryptable(kind()));
  return [...nodeKinds, glusterNodeKind(undefined), ...clouds, encryptable(execNodeKind(programs, undefined))];
}

export interface OpenNodeKindsOptions extends ExecNodeOptions {
  /** For tests. */
  readonly diskLinks?: string | undefined;
}

/** All of them, for a process that makes volumes reachable on its node. */
export async function openNodeKinds(options: OpenNodeKindsOptions): Promise<readonly NodeKind[]> {
  const { diskLinks } = options;
  const finder = diskLinks === undefined ? undefined : new LinkFinder(diskLinks);
  return [
    ...nodeKinds,
    glusterNodeKind(await openGlusterNode(options)),
    ...cloudNodeKinds.map((kind) => encryptable(kind(finder))),
    encryptable(execNodeKind(options.programs, await openExecNode(options))),
  ];
}

export { type ProgramConfig, type Programs, readProgram };

/** In the order in which messages list them. */
export const kindNames: readonly KindName[] = ['image', 'directory', 'lvm', 'disk', 'nfs', 'exec', 'aws-ebs', 'gce-pd'];

/** The kind of a pool whose section names none, as it was before there were several kinds. */
export const defaultKind: KindName = 'image';

/** The configuration of a pool of any kind. */
export type PoolConfig<Kind extends KindName = KindName> = {
  readonly [Name in Kind]: Configured<OwnOptions[Name]> & { readonly kind: Name };
}[Kind];

/** The name of drivers with pools of this kind; undefined: they lie on one node. */
export function clusterDriverOf(kind: KindName): string | undefined {
  const { clusterDriver }: Pick<PoolKind<never>, 'clusterDriver'> = kinds[kind];
  return clusterDriver;
}

const instanceModules = {
  aws: () => import('./kinds/aws-ebs/instance.ts'),
  gce: () => import('./kinds/gce-pd/instance.ts'),
} as const;

/** Asks the machine that this is what its cloud calls it. @throws Unavailable, NoAnswer */
export async function readInstance(cloud: CloudName, environment: OpenContext['environment']): Promise<Instance> {
  const { readInstance: read } = await instanceModules[cloud]();
  return await read(environment ?? {});
}

export { type CloudName, clouds, type Instance };

/** Answers if the home of such pools attaches their volumes to nodes. */
export function isAttachedByHome(kind: KindName): boolean {
  const { isAttachedByHome: isAttached }: Pick<PoolKind<never>, 'isAttachedByHome'> = kinds[kind];
  return isAttached === true;
}

/** The parameters of classes that only pools of these kinds have. */
export function ownParametersOf(pools: readonly Pick<PoolConfig, 'kind'>[]): readonly string[] {
  return [
    ...new Set(
      pools.flatMap(({ kind }) => {
        const { parameters = [] }: Pick<PoolKind<never>, 'parameters'> = kinds[kind];
        return parameters;
      }),
    ),
  ];
}

/** The keys that a section of such a pool may have. */
export function keysOf(kind: KindName): readonly string[] {
  const { commonKeys, ownKeys } = kinds[kind];
  return ['kind', ...ownKeys, ...commonKeys];
}

/** The key of the section that such a pool has this one in; undefined: it has none of that name. */
export function keyAbove(kind: KindName, key: string): string | undefined {
  const { keysBelow = {} } = kinds[kind];
  return Object.hasOwn(keysBelow, key) ? keysBelow[key] : undefined;
}

/** Reads the section of a pool, apart from its kind, and reports its mistakes. */
export function readPool<Kind extends KindName>(kind: Kind, name: string, section: SectionReader): PoolConfig<Kind> {
  const { commonKeys, read }: PoolKind<OwnOptions[Kind]> = kinds[kind];
  const settings = readSettings(name, section, commonKeys);
  return { ...settings, kind, own: read(section, settings) };
}

/** Gives pools of programs their programs, which the configuration names apart. */
export function withPrograms(
  pools: readonly PoolConfig[],
  programs: readonly ProgramConfig[],
  mistake: (poolName: string, key: string, message: string) => void,
): PoolConfig[] {
  return pools.map((pool) => {
    // Without a name it has another mistake.
    if (pool.kind !== 'exec' || pool.own.programName === '') return pool;
    const own = withProgram(pool.own, programs);
    if (!('mistake' in own)) return { ...pool, own };
    mistake(pool.name, 'program', own.mistake);
    return pool;
  });
}

/** The disks, files and names that the pool takes for itself on this node. */
export function claimsOf<Kind extends KindName>(pool: PoolConfig<Kind>, dataDirectory: string): readonly Claim[] {
  return kinds[pool.kind].claims(pool, dataDirectory);
}

/** A section that stands for several pools, and is none itself. */
export type PoolSection = PoolConfig<'disk'>;

/** True for a section that stands for several pools. */
export function standsForSeveral(pool: PoolConfig): pool is PoolSection {
  return pool.kind === 'disk' && diskSections.has(pool);
}

/** A pool on the one free disk that its section matches. */
function oneDiskSection({ kind, name, own }: PoolConfig): MatchSection[] {
  return kind !== 'disk' && 'match' in own && own.match !== undefined ? [{ name, match: own.match }] : [];
}

/** The pool with the disk that this node has noted for it, for commands that only look. */
function withKnownDisk(pool: PoolConfig, members: readonly Member[], disks: readonly Disk[]): PoolConfig {
  const identity = members.find(({ poolName }) => poolName === pool.name)?.identity;
  const path = identity === undefined ? undefined : disks.find((disk) => disk.identity === identity)?.devicePath;
  if (path === undefined || oneDiskSection(pool).length === 0) return pool;
  if (pool.kind === 'image') return { ...pool, own: { ...pool.own, location: { type: 'device', path } } };
  return pool.kind === 'lvm' ? { ...pool, own: { ...pool.own, devices: [path] } } : pool;
}

/** Its group is made of the disks that it names or matches: no pool waits for the group itself. */
function isOwnGroup(pool: PoolConfig): boolean {
  return pool.kind === 'lvm' && (pool.own.devices.length > 0 || pool.own.match !== undefined);
}

/** The disks and groups that the pools of a configuration name, or may take: each pool must leave those of the others alone. */
export function othersOf(pools: readonly PoolConfig[], dataDirectory: string): OtherPools {
  return {
    named: pools.flatMap((pool) =>
      claimsOf(pool, dataDirectory).flatMap(({ key, path, type }) =>
        type === 'device' && !(key === 'volumeGroup' && isOwnGroup(pool)) ? [{ poolName: pool.name, path }] : [],
      ),
    ),
    sections: [...sectionsIn(pools.filter(standsForSeveral)), ...pools.flatMap(oneDiskSection)],
  };
}

/** The pools that there are: those that this node has had of sections, in their place. */
export async function expandPools(pools: readonly PoolConfig[], dataDirectory: string): Promise<ExpandedPools> {
  const sections = pools.filter(standsForSeveral);
  const known = sections.length === 0 ? [] : await diskSections.known(sections, dataDirectory);
  const onOneDisk = pools.flatMap(oneDiskSection);
  const queue = new DiskQueue('disks of pools', 2);
  const noted = onOneDisk.length === 0 ? [] : await readMembers(queue, dataDirectory);
  const disks = noted.length === 0 ? [] : await listDisks(queue);
  const members = (section: PoolConfig) =>
    known.filter((pool) => pool.section === section.name).map((pool) => ({ ...pool, kind: 'disk' }) as const);
  return {
    sections,
    pools: pools.flatMap((pool): readonly PoolConfig[] =>
      standsForSeveral(pool) ? members(pool) : [withKnownDisk(pool, noted, disks)],
    ),
  };
}

export interface ExpandedPools {
  readonly sections: readonly PoolSection[];
  readonly pools: readonly PoolConfig[];
}

/** Finds the pools of sections that this node has not had before, and those that come later. */
export function watchSections(pools: readonly PoolConfig[], options: SectionWatchOptions): Promise<PoolWatch> {
  const { named } = othersOf(pools, options.dataDirectory);
  const rivals = pools.flatMap(oneDiskSection);
  const add = (pool: Configured<DiskOptions>) => options.add({ ...pool, kind: 'disk' });
  return diskSections.watch(pools.filter(standsForSeveral), { ...options, add, named, rivals });
}

export interface SectionWatchOptions extends Omit<WatchContext<DiskOptions>, 'add' | 'named' | 'rivals'> {
  /** Opens a pool, which is one of the node's from then on if that succeeds. @returns why it does not */
  add(pool: PoolConfig): Promise<unknown>;
}

/** True if the pool takes a disk that its section matches. */
export function takesByMatch(pool: PoolConfig): boolean {
  return standsForSeveral(pool) || oneDiskSection(pool).length > 0;
}

/**
 * The sections that a disk is for, whether it is free or not. @param pools expanded ones and sections: a pool that has its disk wants
 * no other @param links what udev has for it in /dev/disk/by-id
 */
export function sectionsWanting({ pools, sections }: ExpandedPools, disk: Disk, links: readonly string[]): string[] {
  const waiting = pools.filter((pool) => claimsOf(pool, '/').every(({ key }) => key !== 'device' && key !== 'devices'));
  return sectionsMatching([...sectionsIn(sections), ...waiting.flatMap(oneDiskSection)], disk, links);
}

/** Opens the pool and reconciles it with what a crash or a reboot left. */
export async function openPool<Kind extends KindName>(pool: PoolConfig<Kind>, context: OpenContext): Promise<Pool> {
  const { openOver } = await import('./open.ts');
  const { luksLayer } = await import('./layers/luks/luks-layer.ts');
  const { path } = placeOf(pool, context.dataDirectory);
  const { keyFile, name: poolName } = pool;
  const { dataDirectory } = context;
  const encrypting = (inner: Backend) => luksLayer(inner, { dataDirectory, keyFile, poolName });
  return openOver(() => kinds[pool.kind].open(pool, context), { ...pool, ...context, path, layers: [encrypting] });
}

/**
 * Looks whether this node has what volumes need that every node can reach. A kind that it lacks is a warning only: no volume
 * need be of it.
 */
export async function checkNodeKinds(queue: DiskQueue, programs: Programs): Promise<Finding[]> {
  const findings = nodeKindsWith(programs).map(async (kind) => {
    const ofKind = (await kind.checkNode?.(queue)) ?? [];
    return ofKind.map((finding): Finding => {
      if (finding.status !== 'fail') return finding;
      return {
        ...finding,
        status: 'warn',
        remedy: `Only if there are volumes of kind ${kind.name}: ${finding.remedy}`,
      };
    });
  });
  return (await Promise.all(findings)).flat();
}

/** Asks the servers of the volumes that this node uses. */
export async function checkServersInUse(
  dataDirectory: string,
  programs: Programs,
  queue: DiskQueue,
): Promise<Finding[]> {
  const { checkServers } = await import('./on-node/look.ts');
  return checkServers(dataDirectory, nodeKindsWith(programs), queue);
}

/** The volume that a device or mount belongs to by its names in the kernel alone, for pools of every kind. */
export function volumeByName(seen: Seen): SeenVolume | undefined {
  const named = kindNames.map((kind) => kinds[kind].volumeByName(seen)).find((volume) => volume !== undefined);
  return named ?? encryptedByName(seen);
}

/** Where the configuration alone says that the pool is: no disk is asked. */
export function placeOf<Kind extends KindName>(pool: PoolConfig<Kind>, dataDirectory: string): PoolPlace {
  return kinds[pool.kind].place(pool, dataDirectory);
}

/** Looks at the pool without a driver, and changes nothing. */
export async function lookAt<Kind extends KindName>(pool: PoolConfig<Kind>, request: LookRequest): Promise<PoolSight> {
  const { shownThroughMappers } = await import('./layers/luks/seen.ts');
  return shownThroughMappers(request.queue, await kinds[pool.kind].look(pool, request));
}

/** Looks whether this node has the programs and kernel features that pools of this kind need. */
export function checkNode(kind: KindName, queue: DiskQueue): Promise<Finding[]> {
  return kinds[kind].checkNode(queue);
}
