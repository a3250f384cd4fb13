import { isIPv6 } from 'node:net';
import { FailedPrecondition, type HoldfastError, InternalError, NotFound, Unavailable } from '../../volume/errors.ts';
import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno, KernelError } from '../call/errno.ts';
import { openBeneath, openDirectory, statusOf } from '../file/path.ts';
import {
  cloneMount,
  type MountAttributes,
  type MountParameter,
  mountDetached,
  placeMount,
  unmountNow,
} from '../mount/mount.ts';
import { type NfsOptions, type NfsVersion, nfsVersions } from './options.ts';
import { askServer, defaultNfsPort, hasStatd, isReached, type NfsServer, type ReachedServer } from './server.ts';

/** A directory that a server exports. */
export interface NfsExport {
  readonly host: string;
  /** An absolute path there. */
  readonly share: string;
}

/** Time for a server's name, a connection and an answer: a dead server is reported after it. */
const askTimeoutMs = 5_000;

export const nfsType = 'nfs4';
/** The kernel's name for NFS 3. */
const nfs3Type = 'nfs';

/** The source of a mount of the export in the kernel's mount table. */
export function nfsSource({ host, share }: NfsExport): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${share}`;
}

export function serverOf({ host }: NfsExport, { port = defaultNfsPort, version }: NfsOptions): NfsServer {
  return { host, port, protocol: version === '3' ? 3 : 4 };
}

/** @throws Unavailable in a few seconds if the server does not answer. @param subject the volume or pool, for the message */
async function requireServer(subject: string, server: NfsServer): Promise<ReachedServer> {
  const answer = await askServer(server, askTimeoutMs);
  if (isReached(answer)) return answer;
  throw new Unavailable(`${subject}: NFS server ${server.host} ${answer.why}.`);
}

/**
 * The parameters of one mount for fsconfig(2), which mount.nfs(8) would make. Each mount has its own cache and superblock:
 * without that, options of the first mount would hold for all, and a forced unmount of one would hurt the others.
 */
function nfsParameters(
  { address, clientAddress }: ReachedServer,
  { parameters, port, version3 = [] }: NfsOptions,
  version: NfsVersion,
): readonly MountParameter[] {
  const protocol = isIPv6(address) ? 'tcp6' : 'tcp';
  const proto: readonly MountParameter[] = parameters.some(([key]) => key === 'proto') ? [] : [['proto', protocol]];
  // The kernel itself asks the server's mountd, whose port it asks of the server's rpcbind.
  const own: readonly MountParameter[] =
    version === '3' ? [['mountproto', protocol], ...version3] : [['clientaddr', clientAddress]];
  return [
    ['vers', version],
    ['addr', address],
    ...own,
    ...(port === undefined ? [] : ([['port', `${port}`]] as const)),
    ...proto,
    ['nosharecache'],
    ...parameters,
  ];
}

export interface NfsMount {
  readonly exported: NfsExport;
  readonly options: NfsOptions;
  readonly attributes: MountAttributes;
  /** The volume or pool, for messages. */
  readonly subject: string;
}

/** Mounts an export without a place in the file tree. @throws HoldfastError that names the server and says what it answered */
export async function mountExport(queue: DiskQueue, mount: NfsMount): Promise<Descriptor> {
  const { attributes, exported, options, subject } = mount;
  const reached = await requireServer(subject, serverOf(exported, options));
  const versions = options.version === undefined ? nfsVersions : [options.version];
  if (options.version === '3') await requireLocks(subject, options);
  for (const [index, version] of versions.entries()) {
    const parameters = nfsParameters(reached, options, version);
    try {
      const fsType = version === '3' ? nfs3Type : nfsType;
      return await mountDetached(queue, { fsType, source: nfsSource(exported), parameters, attributes });
    } catch (error) {
      if (index + 1 < versions.length && isErrno(error, 'EPROTONOSUPPORT')) continue;
      throw explainNfs(error, mount, reached);
    }
  }
  throw new InternalError(`${subject}: no version of NFS was tried.`);
}

/**
 * The kernel makes locks of NFS 3 only with a daemon that tells it when a server has restarted; it finds out at the first lock.
 * mount.nfs(8) starts the daemon, which a driver must not do: it belongs to the node.
 */
async function requireLocks(subject: string, { version3 = [] }: NfsOptions): Promise<void> {
  if (version3.some(([key]) => key === 'nolock') || (await hasStatd())) return;
  throw new FailedPrecondition(
    `${subject}: NFS 3 makes locks only while rpc.statd runs on the node: start it there (nfs-common, rpc-statd.service), or add the mount option nolock, with which a lock holds on its own node alone.`,
  );
}

/** Explains the kernel's refusal of a mount. Its words are not passed on: they may have an option in them (X02). */
function explainNfs(
  error: unknown,
  { exported: { host, share }, subject }: Pick<NfsMount, 'exported' | 'subject'>,
  { clientAddress }: Pick<ReachedServer, 'clientAddress'>,
): unknown {
  if (!(error instanceof KernelError) || !/^fs(open|config)/.test(error.syscall)) return error;
  const { code } = error;
  const about = (words: string) => `${subject}: ${words} (${code}).`;
  const refused = (words: string): HoldfastError => new FailedPrecondition(about(words));
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return refused(`NFS server ${host} has no directory ${share} for this node: see the exports there`);
    case 'EACCES':
    case 'EPERM':
      return refused(`NFS server ${host} refuses ${share} to this node, ${clientAddress}: export it to that address`);
    case 'EPROTONOSUPPORT':
      return refused(`NFS server ${host} serves neither NFS 4.2 nor 4.1, or not the version that mountOptions ask for`);
    case 'EINVAL':
      return refused(`the kernel does not take the options of this mount of ${host}: correct mountOptions`);
    case 'ENODEV':
      return refused('the kernel of this node has no NFS client: load its module nfsv4');
    default:
      return new Unavailable(about(`NFS server ${host} cannot be mounted; see the node's kernel log`));
  }
}

/** A directory of an export, on whose path other programs can put symbolic links. */
export interface NfsDirectory extends NfsMount {
  /** In the export. */
  readonly directory: string;
  /** An empty directory, which no other program looks into: the export is mounted there for a moment. */
  readonly mountPoint: string;
}

/**
 * Mounts a directory of an export without a place in the file tree. The kernel would follow symbolic links on the way to it,
 * and a program that writes to the export can make some. So the directory is found from the mounted export, and no link is
 * followed. Before Linux 6.15 only a part of a mount that has a place can be mounted.
 */
export async function openNfsDirectory(queue: DiskQueue, wanted: NfsDirectory): Promise<Descriptor> {
  const { directory, exported, mountPoint, subject } = wanted;
  const where = `${directory} in ${exported.share} of NFS server ${exported.host}`;
  {
    await using whole = await mountExport(queue, wanted);
    await using target = await openDirectory(queue, mountPoint);
    await placeMount(queue, whole, { target, attributes: {} });
  }
  try {
    await using whole = await openDirectory(queue, mountPoint);
    await using found = await openBeneath(queue, whole, directory).catch((error) => {
      if (isErrno(error, 'ENOENT')) throw new NotFound(`${subject}: there is no ${where}.`);
      if (!isErrno(error, 'ELOOP', 'EXDEV', 'ENOTDIR')) throw error;
      throw new FailedPrecondition(`${subject}: ${where} leads through a symbolic link, or a file. None is followed.`);
    });
    if ((await statusOf(queue, found)).kind !== 'directory') {
      throw new FailedPrecondition(`${subject}: ${where} is no directory.`);
    }
    return cloneMount(queue, found, {});
  } finally {
    // Its place goes at once, the mount itself with its last descriptor.
    await unmountNow(queue, mountPoint, mountPoint, ['detach']);
  }
}

/** Options of a volume win over those of its pool. */
export function mergeNfsOptions(pool: NfsOptions, volume: NfsOptions): NfsOptions {
  const version3 = [...(pool.version3 ?? []), ...(volume.version3 ?? [])];
  return {
    parameters: [...pool.parameters, ...volume.parameters],
    version: volume.version ?? pool.version,
    port: volume.port ?? pool.port,
    ...(version3.length > 0 && { version3 }),
  };
}
