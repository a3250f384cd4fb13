import { parseMkfsOptions } from '../../command/mkfs-options.ts';
import {
  defaultProvisioning,
  hasLayout,
  type Pool,
  sizeMultiple,
  type VolumeSpec,
  whyNotModes,
} from '../../pool/pool.ts';
import { mismatch, type VolumeContent } from '../../volume/capability.ts';
import type { EncryptionType } from '../../volume/encryption.ts';
import { type HoldfastError, InvalidArgument, OutOfRange } from '../../volume/errors.ts';
import { filesystemTraits, isServed } from '../../volume/filesystem.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { Provisioning } from '../../volume/record.ts';
import { type CapacityRange, chooseSize, granularityBytes, larger, roundUp } from '../../volume/size.ts';
import type { Demand, VolumeRequest } from '../request.ts';
import { ownNamesIn, type Placement } from './parameters.ts';
import type { SourceRecord } from './sources.ts';

/**
 * Describes the requested volume in this pool, with the content of `from` or none.
 * @throws InvalidArgument if the pool does not support it, OutOfRange for a size that the pool cannot have
 */
export function specFor(request: VolumeRequest, pool: Pool, id: VolumeId, from?: SourceRecord): VolumeSpec {
  const { demand, parameters } = request;
  const onUnsupported = (message: string) => new InvalidArgument(message);
  requireModes(pool, demand, onUnsupported);
  const content = from === undefined ? contentIn(pool, demand, onUnsupported) : contentOf(from, demand);
  const { provisioning = defaultProvisioning(pool.traits) } = parameters;
  requireProvisioning(pool, provisioning);
  requirePlacement(pool, parameters);
  requireOwnParameters(pool, request.allParameters);
  const encryption = encryptionIn(pool, parameters.encryption, from);
  const multipleBytes = sizeMultiple(pool.traits, encryption);
  // Checked even if nothing will be formatted: a class is used for new and for restored volumes, and must be valid for
  // both.
  const formatting = mkfsArguments(content, parameters.mkfsOptions);
  return {
    id,
    name: request.name,
    sizeBytes:
      from === undefined
        ? chooseSize(request.range, minimumBytes(content), multipleBytes)
        : sizeFrom(from, request.range, multipleBytes),
    content,
    accessModes: demand.modes,
    provisioning,
    mkfsArguments: from === undefined ? formatting : [],
    parameters: request.allParameters,
    mutableParameters: request.mutableParameters,
    undeleteSeconds: parameters.undeleteSeconds,
    encryption,
    layout: parameters.layout,
    wipe: parameters.wipe,
    secrets: request.secrets,
    zone: pool.cluster?.zoneFor?.(request.topology),
  };
}

/** @throws InvalidArgument: a copy is encrypted or not, exactly like its source */
function encryptionIn(
  pool: Pool,
  asked: EncryptionType | undefined,
  from: SourceRecord | undefined,
): EncryptionType | undefined {
  if (asked !== undefined && !pool.traits.encryption?.includes(asked)) {
    const refusal = `Pool ${pool.name} has no volumes with encryption ${asked}`;
    if (pool.cluster === undefined) throw new InvalidArgument(`${refusal}.`);
    throw new InvalidArgument(
      `${refusal}: where it makes them they have no device. Use the encryption of the storage, or PersistentVolumes that name a disk (docs/encryption.md).`,
    );
  }
  if (from === undefined || asked === from.encryption?.type) return asked;
  if (asked === undefined) return from.encryption?.type;
  throw new InvalidArgument(
    `A volume with encryption ${asked} cannot be made from ${from.id}, which is not encrypted: make a new one and copy its files.`,
  );
}

/**
 * Returns the content that a volume in this pool gets to meet the demand. `onUnsupported` makes the error if none can.
 */
export function contentIn(
  pool: Pool,
  { access }: Demand,
  onUnsupported: (message: string) => HoldfastError,
): VolumeContent {
  const { block, directories, filesystems, servedTypes = [] } = pool.traits;
  if (access.type === 'block') {
    if (!block) throw onUnsupported(`Pool ${pool.name} has no raw block volumes.`);
    return { type: 'block' };
  }
  const isServedHere = isServed(access.fsType) && servedTypes.includes(access.fsType);
  if (directories && (access.fsType === undefined || isServedHere)) return { type: 'directory' };
  const fsType = access.fsType ?? pool.defaultFilesystem;
  if (isServed(fsType) || !filesystems.includes(fsType)) {
    const others = [...filesystems, ...(directories ? ['directories (without fsType)'] : [])];
    throw onUnsupported(`Pool ${pool.name} has no ${fsType}, only ${others.join(', ')}.`);
  }
  return { type: 'mount', fsType };
}

/** @param onUnsupported makes the error for a mode that volumes of the pool cannot have (A05) */
export function requireModes(
  { traits }: Pick<Pool, 'traits'>,
  { modes }: Pick<Demand, 'modes'>,
  onUnsupported: (message: string) => HoldfastError,
): void {
  const reason = whyNotModes(traits, modes);
  if (reason !== undefined) throw onUnsupported(`${reason}.`);
}

/** The smallest volume that can hold this (CV09). */
export function minimumBytes(content: VolumeContent): bigint {
  return content.type === 'mount' ? filesystemTraits[content.fsType].minimumBytes : granularityBytes;
}

/** @throws InvalidArgument */
export function requireProvisioning(pool: Pool, provisioning: Provisioning): void {
  const { provisioning: known } = pool.traits;
  if (known.includes(provisioning)) return;
  throw new InvalidArgument(`Pool ${pool.name} has no ${provisioning} provisioning, only ${known.join(', ')}.`);
}

/** @throws InvalidArgument */
function requirePlacement({ name, traits }: Pool, { layout, wipe }: Pick<Placement, 'layout' | 'wipe'>): void {
  if (layout !== undefined && !hasLayout(traits, layout)) {
    throw new InvalidArgument(`Pool ${name} has no volumes with layout ${layout}.`);
  }
  if (wipe !== undefined && !traits.wipes?.includes(wipe)) {
    throw new InvalidArgument(`Pool ${name} has no choice of wipe: leave the parameter out.`);
  }
}

/** @throws InvalidArgument */
function requireOwnParameters({ name, traits }: Pool, parameters: Readonly<Record<string, string>>): void {
  const foreign = ownNamesIn(parameters).find((key) => !traits.parameters?.includes(key));
  if (foreign !== undefined) throw new InvalidArgument(`Pool ${name} has no parameter ${foreign}: leave it out.`);
}

/** The content is always that of the source (CV26). */
function contentOf({ content, id }: SourceRecord, { access }: Demand): VolumeContent {
  const reason = mismatch(content, access);
  if (reason !== undefined) throw new InvalidArgument(`The volume cannot be made from ${id}: ${reason}.`);
  return content;
}

/**
 * Returns the size of the source unless the request asks for more (CV28). A requested size is rounded as for the
 * source, so that the claim that the source was made for also fits a copy.
 */
function sizeFrom(
  { content, id, sizeBytes }: SourceRecord,
  range: CapacityRange | undefined,
  multipleBytes = granularityBytes,
): bigint {
  const required = range?.requiredBytes ?? sizeBytes;
  if (larger(roundUp(required, multipleBytes), minimumBytes(content)) < sizeBytes) {
    throw new OutOfRange(`${required} bytes are too few for the content of ${id}, which has ${sizeBytes} bytes.`);
  }
  return chooseSize({ requiredBytes: required, limitBytes: range?.limitBytes }, sizeBytes, multipleBytes);
}

/** Sizes in requests are usually multiples of this, or exact to the byte. */
const likelyMultipleBytes = 1n << 20n;

/**
 * Returns the smallest size that a restore may request, for CS12: the CO refuses less, even the very request that the
 * source was made for. That may be any that is rounded up to this size, so it is the smallest of them. Whole mebibytes
 * are kept: they are easier to read, and the request was hardly any other. 0, for unspecified, if no request is too
 * small.
 */
export function restoreBytes({ content, sizeBytes }: Pick<SourceRecord, 'content' | 'sizeBytes'>): bigint {
  if (sizeBytes <= minimumBytes(content)) return 0n;
  return sizeBytes % likelyMultipleBytes === 0n ? sizeBytes : sizeBytes - granularityBytes + 1n;
}

function mkfsArguments(content: VolumeContent, options: string): string[] {
  if (content.type === 'mount') return parseMkfsOptions(content.fsType, options);
  if (options === '') return [];
  throw new InvalidArgument('mkfsOptions is set, but a raw block volume gets no filesystem: leave it out.');
}
