import { type GitSource, parseGitSource } from '../../command/git-source.ts';
import { didYouMean } from '../../settings/nearest.ts';
import { type EncryptionType, parseEncryption } from '../../volume/encryption.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { type FilesystemType, filesystemTypes, parseFilesystemType } from '../../volume/filesystem.ts';
import { parseQuantity } from '../../volume/size.ts';

/** The `volumeAttributes` of an inline volume. */
export interface EphemeralAttributes {
  /** The most that the volume holds; undefined: it is left to us. */
  readonly sizeBytes: bigint | undefined;
  /** undefined: as the volume_capability says, or else the pool. */
  readonly fsType: FilesystemType | undefined;
  /** undefined: the default pool. */
  readonly poolName: string | undefined;
  readonly source: GitSource | undefined;
  readonly encryption: EncryptionType | undefined;
}

const knownKeys: readonly string[] = [
  'size',
  'fsType',
  'pool',
  'encryption',
  'gitRepository',
  'gitRevision',
  'gitDirectory',
];

const kubernetesPrefix = 'csi.storage.k8s.io/';
const ephemeralKey = `${kubernetesPrefix}ephemeral`;
/** Has credentials of the pod in it, and new ones from time to time. */
const tokensKey = `${kubernetesPrefix}serviceAccount.tokens`;

type VolumeContext = Readonly<Record<string, string>>;

/** True if a publish makes its volume itself. The kubelet says so if the driver's CSIDriver object has podInfoOnMount. */
export function isEphemeral(volumeContext: VolumeContext): boolean {
  return volumeContext[ephemeralKey] === 'true';
}

/** @throws InvalidArgument that names the attribute */
export function parseEphemeralAttributes(context: VolumeContext): EphemeralAttributes {
  const unknown = Object.keys(context).find((key) => !key.startsWith(kubernetesPrefix) && !knownKeys.includes(key));
  if (unknown !== undefined) {
    throw new InvalidArgument(
      `Unknown volume attribute ${JSON.stringify(unknown)}; known are ${knownKeys.join(', ')}${didYouMean(unknown, knownKeys)}.`,
    );
  }
  const { gitDirectory, gitRepository, gitRevision } = context;
  return {
    sizeBytes: parseSize(context['size']),
    fsType: parseFsType(context['fsType']),
    poolName: context['pool'],
    encryption: parseEncryption('Volume attribute', context['encryption']),
    source: parseGitSource({ gitDirectory, gitRepository, gitRevision }),
  };
}

/** The part of the context that the volume's record keeps, in one order. */
export function keptParameters(context: VolumeContext): Record<string, string> {
  const kept = Object.entries(context).filter(([key]) => key !== ephemeralKey && key !== tokensKey);
  return Object.fromEntries(kept.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** True if two volumes were requested with the same attributes, whatever the kubelet said besides. */
export function sameAttributes(a: VolumeContext, b: VolumeContext): boolean {
  return knownKeys.every((key) => a[key] === b[key]);
}

function parseSize(text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  let bytes: bigint;
  try {
    bytes = parseQuantity(text);
  } catch (error) {
    throw error instanceof InvalidArgument ? new InvalidArgument(`Volume attribute size: ${error.message}`) : error;
  }
  if (bytes === 0n) throw new InvalidArgument('Volume attribute size must be more than nothing.');
  return bytes;
}

function parseFsType(text: string | undefined): FilesystemType | undefined {
  if (text === undefined) return undefined;
  const fsType = parseFilesystemType(text);
  if (fsType !== undefined) return fsType;
  throw new InvalidArgument(
    `Volume attribute fsType is ${JSON.stringify(text)}; it can be ${filesystemTypes.join(', ')}${didYouMean(text, filesystemTypes)}.`,
  );
}
