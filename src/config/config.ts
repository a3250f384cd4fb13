import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import {
  type CloudName,
  clouds,
  defaultKind,
  isAttachedByHome,
  type PoolConfig,
  type Programs,
  readPool,
} from '../pool/kinds.ts';
import { SectionReader } from '../settings/section.ts';
import { isLabel } from '../volume/labels.ts';
import type { CrashPoint } from '../volume/step.ts';
import { EnvironmentReader, type HttpAddress } from './environment.ts';
import type { Settings } from './file.ts';
import type { HostPlaces } from './locations.ts';
import { type ChosenSide, chooseSide, hasNode, type Side, sidedPool, sides } from './side.ts';

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

export interface Config {
  readonly driverName: string;
  /** The part of a driver whose volumes every node can reach; undefined: a driver for its node's disks. */
  readonly side: Side | undefined;
  readonly nodeId: string;
  /** Path of the socket that the driver listens on; undefined only outside of `serve`. */
  readonly socketPath: string | undefined;
  readonly registrationSocketPath: string | undefined;
  /** Path of the socket for the operator's commands that change something. */
  readonly adminSocketPath: string;
  /** Address of metrics and health; undefined: not served. */
  readonly httpAddress: HttpAddress | undefined;
  readonly dataDirectory: string;
  /** Directory of the node service's notes on staged volumes, and the one that earlier versions had. */
  readonly notes: { readonly directory: string; readonly earlier: string };
  readonly kubeletDirectory: string;
  /** Targets must lie below one of these: the kubelet's directory first. */
  readonly targetRoots: readonly string[];
  readonly logLevel: LogLevel;
  readonly crashPoint: CrashPoint | undefined;
  /** For tests: a directory with links to the devices of a cloud's disks. */
  readonly diskLinks: string | undefined;
  /** Directories to search for programs such as mkfs.ext4: the value of PATH. */
  readonly searchPath: string;
  /** The file the pools came from, for messages. */
  readonly configFile: string | undefined;
  readonly pools: readonly PoolConfig[];
  readonly defaultPool: string;
  /** Programs of the user's, by their names. */
  readonly programs: Programs;
  readonly expansion: 'node' | 'controller';
  /** required: a volume is published to its node before it is staged (ControllerPublishVolume). */
  readonly attach: 'none' | 'required';
  /** Maximum of volumes in use on this node at a time; 0: no limit but the scheduler's. */
  readonly maxVolumesPerNode: number;
  readonly lockTimeoutMs: number;
  /** The largest inline volume that a pod may ask for; undefined: any that its pool has room for. */
  readonly maxInlineSizeBytes: bigint | undefined;
  /** The controller of many nodes; undefined: there is none. */
  readonly link: LinkConfig | undefined;
  /** Snapshots may follow a volume that moves. */
  readonly movesSnapshots: boolean;
  /** The cloud that this node is a machine of: it has its id and its zone from there. undefined: none. */
  readonly cloud: CloudName | undefined;
  /** The variables by which programs for clouds are configured. */
  readonly cloudEnvironment: Readonly<Record<string, string | undefined>>;
}

/** The connection of a node to the controller of many nodes. */
export interface LinkConfig {
  /** Addresses of the replicas. A name can have several addresses, each of them a replica. */
  readonly controllers: readonly { readonly host: string; readonly port: number }[];
  /** Certificate authority of the controller. */
  readonly authorityPath: string;
  /** Token that the node identifies itself with. */
  readonly tokenPath: string;
  /** Where other nodes fetch volumes that move to them; undefined: volumes do not move between nodes. */
  readonly moveAddress: HttpAddress | undefined;
}

export interface ServeConfig extends Config {
  readonly socketPath: string;
}

/** The sources of the configuration. */
export interface ConfigSource {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly hostName: string;
  readonly readFile: (path: string) => string;
}

/** The configuration, or every mistake in it: one line each, with the variable's name or the file's line and column. */
export type Parsed<T> = { readonly config: T } | { readonly problems: readonly string[] };

/** The one place that reads the process's environment. */
export function processSource(): ConfigSource {
  return { environment: process.env, hostName: hostname(), readFile: (path) => readFileSync(path, 'utf8') };
}

/** Parses the configuration for a command that only reads. */
export async function parseConfig(source: ConfigSource): Promise<Parsed<Config>> {
  const reader = new EnvironmentReader(source.environment);
  const config = await readConfig(source, reader);
  return reader.problems.length === 0 ? { config } : { problems: reader.problems };
}

/** Parses the paths that pools must not overlap, for a command that only reads a configuration file. */
export async function parsePlaces({ environment }: ConfigSource): Promise<Parsed<HostPlaces>> {
  const reader = new EnvironmentReader(environment);
  const config = readPlaces(reader);
  return reader.problems.length === 0 ? { config } : { problems: reader.problems };
}

/** Parses the configuration for the driver itself: it must know where to listen (O01). */
export async function parseServeConfig(source: ConfigSource): Promise<Parsed<ServeConfig>> {
  const reader = new EnvironmentReader(source.environment);
  const config = await readConfig(source, reader);
  const { socketPath } = config;
  if (reader.text('CSI_ENDPOINT') === undefined) {
    reader.problems.unshift(
      'CSI_ENDPOINT is not set: name the socket to listen on, such as unix:///run/holdfast/csi.sock',
    );
  }
  if (reader.problems.length > 0 || socketPath === undefined) return { problems: reader.problems };
  return { config: { ...config, socketPath } };
}

const defaultSearchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** I01, I02, and the name of a CSIDriver object, which must be lower case. */
export const driverNamePattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

async function readConfig(source: ConfigSource, reader: EnvironmentReader): Promise<Config> {
  reader.refuseMisspelled();
  const configFile = reader.path('HOLDFAST_CONFIG', undefined);
  const { dataDirectory, kubeletDirectory } = readPlaces(reader);
  // This node's topology segment (Y01).
  const nodeId = reader.matching('HOLDFAST_NODE_ID', source.hostName, {
    fits: isLabel,
    wants: "1 to 63 letters, digits, and inner '-', '_' or '.', for it becomes a label's value",
  });
  const file = await readConfigFile(configFile, { dataDirectory, kubeletDirectory }, source, reader, nodeId);
  const socketPath = reader.endpoint('CSI_ENDPOINT');
  const registrationSocketPath = reader.socketPath('HOLDFAST_REGISTRATION_SOCKET', undefined);
  const adminSocketPath = reader.socketPath('HOLDFAST_ADMIN_SOCKET', join(dataDirectory, 'admin.sock'));
  if (socketPath !== undefined && socketPath === registrationSocketPath) {
    reader.problems.push('HOLDFAST_REGISTRATION_SOCKET is the socket of CSI_ENDPOINT: it needs another path');
  }
  refuseNeighbours(adminSocketPath, { socketPath, registrationSocketPath }, reader);
  const { driverName, side } = readSide(reader, file);
  if (side === undefined && file?.programs !== undefined && reader.problems.length === 0) {
    reader.problems.push(
      'HOLDFAST_CONFIG: programs are for drivers of volumes that every node can reach: set HOLDFAST_SIDE, or leave them out',
    );
  }
  refuseWithoutAttach(reader, file);
  const usualPools = side === undefined ? [readPool(defaultKind, 'default', new SectionReader({}, [], []))] : [];
  const pools = file?.pools ?? usualPools;
  return {
    driverName: reader.matching('HOLDFAST_DRIVER_NAME', driverName, {
      fits: (name) => name.length <= 63 && driverNamePattern.test(name),
      wants: 'a lower-case domain name of at most 63 characters, such as holdfast.csi.dev',
    }),
    side,
    nodeId,
    socketPath,
    registrationSocketPath,
    adminSocketPath,
    httpAddress: reader.httpAddress('HOLDFAST_HTTP_ADDRESS'),
    dataDirectory,
    notes: {
      directory: join(reader.path('HOLDFAST_RUN', dataDirectory), 'node'),
      earlier: join(dataDirectory, 'node'),
    },
    kubeletDirectory,
    targetRoots: [kubeletDirectory, ...reader.paths('HOLDFAST_TARGET_ROOTS')],
    logLevel: reader.oneOf('HOLDFAST_LOG_LEVEL', logLevels, 'info'),
    crashPoint: reader.crashPoint('HOLDFAST_TEST_CRASH_AT'),
    diskLinks: reader.path('HOLDFAST_TEST_DISK_LINKS', undefined),
    searchPath: reader.text('PATH') ?? defaultSearchPath,
    configFile,
    pools,
    defaultPool: defaultPoolOf(file, pools),
    programs: new Map(file?.programs?.map((program) => [program.name, program])),
    expansion: file?.expansion ?? 'node',
    attach: file?.attach ?? 'none',
    maxVolumesPerNode: file?.maxVolumesPerNode ?? 0,
    // The home that takes another one's place waits until that is gone, however long it takes.
    lockTimeoutMs: (file?.lockTimeoutSeconds ?? (side === undefined ? 30 : Infinity)) * 1000,
    maxInlineSizeBytes: file?.maxInlineSizeBytes,
    link: readLink(reader, side),
    movesSnapshots: reader.oneOf('HOLDFAST_MOVE_SNAPSHOTS', ['true', 'false'], 'false') === 'true',
    cloud: readCloud(reader, side),
    cloudEnvironment: cloudVariables(source.environment),
  };
}

/** Otherwise nothing would attach volumes to nodes. */
function refuseWithoutAttach(reader: EnvironmentReader, file: Settings | undefined): void {
  const pool = file?.pools?.find(({ kind }) => isAttachedByHome(kind));
  if (pool === undefined || file?.attach === 'required' || reader.problems.length > 0) return;
  reader.problems.push(
    `HOLDFAST_CONFIG: attach must be required: volumes of pool ${pool.name} (${pool.kind}) are attached to nodes`,
  );
}

function readCloud(reader: EnvironmentReader, side: Side | undefined): CloudName | undefined {
  const cloud = reader.oneOf<CloudName | 'none'>('HOLDFAST_CLOUD', clouds, 'none');
  if (cloud === 'none') return undefined;
  if (!hasNode(side)) reader.problems.push('HOLDFAST_CLOUD: leave it out: it is for nodes with HOLDFAST_SIDE');
  return cloud;
}

/** Passed on as they are: their names are those of the clouds' own programs. */
function cloudVariables(environment: ConfigSource['environment']): Config['cloudEnvironment'] {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => /^(HOME$|AWS_|GOOGLE_|GCE_)/.test(name)));
}

/** Nodes have several drivers, each with a directory. */
function usualDataDirectory(reader: EnvironmentReader): string {
  if (reader.text('HOLDFAST_SIDE') === undefined) return '/var/lib/holdfast';
  return `/var/lib/${reader.text('HOLDFAST_DRIVER_NAME') ?? 'files.holdfast.csi.dev'}`;
}

function readSide(reader: EnvironmentReader, file: Settings | undefined): ChosenSide {
  const asked = reader.oneOf<Side | 'none'>('HOLDFAST_SIDE', sides, 'none');
  const chosen = chooseSide(asked === 'none' ? undefined : asked, file?.pools?.map(sidedPool));
  if (!('problem' in chosen)) return chosen;
  // A file that could not be read has other problems.
  if (reader.problems.length === 0) reader.problems.push(chosen.problem);
  return { side: undefined, driverName: 'holdfast.csi.dev' };
}

function readPlaces(reader: EnvironmentReader): HostPlaces {
  return {
    dataDirectory: reader.path('HOLDFAST_DATA', usualDataDirectory(reader)),
    kubeletDirectory: reader.path('HOLDFAST_KUBELET_DIR', '/var/lib/kubelet'),
  };
}

function readLink(reader: EnvironmentReader, side: Side | undefined): LinkConfig | undefined {
  const controllers = reader.hosts('HOLDFAST_CONTROLLER');
  const authorityPath = reader.path('HOLDFAST_CONTROLLER_CA', '/etc/holdfast/controller/ca.crt');
  const tokenPath = reader.path('HOLDFAST_CONTROLLER_TOKEN', '/var/run/secrets/holdfast/token');
  if (controllers.length > 0 && side !== undefined) {
    reader.problems.push('HOLDFAST_CONTROLLER: leave it out: it is for drivers of disks on nodes');
  }
  const moveAddress = reader.httpAddress('HOLDFAST_MOVE_ADDRESS');
  return controllers.length === 0 ? undefined : { controllers, authorityPath, tokenPath, moveAddress };
}

/**
 * Nothing else of ours lies beside the CSI socket, unless it was itself put where our files are (O02), and the kubelet
 * treats every socket beside the registration one as a plugin.
 */
function refuseNeighbours(
  adminSocketPath: string,
  others: { readonly socketPath: string | undefined; readonly registrationSocketPath: string | undefined },
  reader: EnvironmentReader,
): void {
  const { registrationSocketPath, socketPath } = others;
  if (socketPath === adminSocketPath) {
    reader.problems.push(`HOLDFAST_ADMIN_SOCKET: ${adminSocketPath} is the socket of CSI_ENDPOINT: name another`);
    return;
  }
  for (const [name, path] of [
    ['CSI_ENDPOINT', reader.text('HOLDFAST_ADMIN_SOCKET') === undefined ? undefined : socketPath],
    ['HOLDFAST_REGISTRATION_SOCKET', registrationSocketPath],
  ] as const) {
    if (path === undefined || dirname(path) !== dirname(adminSocketPath)) continue;
    reader.problems.push(
      `HOLDFAST_ADMIN_SOCKET: ${dirname(path)} is for the socket of ${name}: name another directory`,
    );
  }
}

/** undefined: there is no file, or it could not be parsed. */
async function readConfigFile(
  path: string | undefined,
  places: HostPlaces,
  source: ConfigSource,
  reader: EnvironmentReader,
  nodeId: string,
): Promise<Settings | undefined> {
  if (path === undefined) return undefined;
  let text: string;
  try {
    text = source.readFile(path);
  } catch (error) {
    reader.problems.push(`HOLDFAST_CONFIG: ${whyUnreadable(path, error)}`);
    return undefined;
  }
  // Loads the YAML parser only if there is a file.
  const { parseSettings } = await import('./file.ts');
  const parsed = parseSettings(text, places, nodeId);
  if ('file' in parsed) return parsed.file;
  for (const { line, column, message } of parsed.problems)
    reader.problems.push(`${path}:${line}:${column}: ${message}`);
  return undefined;
}

/** Returns the reason why a configuration file cannot be read, and what to do. */
export function whyUnreadable(path: string, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  switch (code) {
    case 'ENOENT':
      return `name a file that is there: there is no ${path}`;
    case 'EISDIR':
      return `name a file: ${path} is a directory`;
    case 'EACCES':
    case 'EPERM':
      return `run this as root, or change the mode of ${path}: it may not be read`;
    default:
      return `${path} cannot be read${code === undefined ? '' : ` (${code})`}`;
  }
}

/** The pool for requests that name none: the configured one, else the one named `default`, else the only one. */
export function defaultPoolOf(
  file: Pick<Settings, 'defaultPool'> | undefined,
  pools: readonly Pick<PoolConfig, 'name'>[],
): string {
  const named = file?.defaultPool ?? pools.find((pool) => pool.name === 'default')?.name;
  return named ?? pools[0]?.name ?? 'default';
}
