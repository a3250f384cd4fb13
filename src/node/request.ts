import type * as wire from '../csi/generated/types.ts';
import { parseCapability } from '../csi/parse.ts';
import { excess, isReaderOnly, type VolumeCapability } from '../volume/capability.ts';
import { FailedPrecondition, InvalidArgument, NotFound } from '../volume/errors.ts';
import { parseVolumeId, type VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { Secrets } from '../volume/secrets.ts';
import { type MountOptions, parseMountFlags } from './mount/mount-options.ts';
import { parseTargetPath, type TargetPath } from './path/target.ts';

/** How a volume is asked for. */
export interface Demand {
  readonly capability: VolumeCapability;
  readonly options: MountOptions;
  /** By the access mode, or by a mount flag: then every mount of the volume is (A02). */
  readonly isReadonly: boolean;
}

export interface StageRequest {
  readonly volumeId: VolumeId;
  readonly staging: TargetPath;
  readonly demand: Demand;
  readonly secrets: Secrets;
}

export interface PublishRequest {
  readonly volumeId: VolumeId;
  readonly target: TargetPath;
  /** undefined: the caller named none (PB13). */
  readonly staging: TargetPath | undefined;
  readonly demand: Demand;
  readonly isReadonly: boolean;
}

/** @throws InvalidArgument, NotFound, FailedPrecondition (A04) */
export function parseStageRequest(request: wire.NodeStageVolumeRequest, roots: readonly string[]): StageRequest {
  const staging = parseTargetPath('staging_target_path', request.staging_target_path, roots);
  const demand = parseDemand(request.volume_capability);
  const volumeId = requireVolumeId(request.volume_id);
  checkVolumeContext(request.volume_context);
  return { volumeId, staging, demand, secrets: new Secrets(request.secrets) };
}

/** @throws InvalidArgument, NotFound, FailedPrecondition (A04) */
export function parsePublishRequest(request: wire.NodePublishVolumeRequest, roots: readonly string[]): PublishRequest {
  const target = parseTargetPath('target_path', request.target_path, roots);
  const { staging_target_path: stagingText } = request;
  const staging = stagingText === '' ? undefined : parseTargetPath('staging_target_path', stagingText, roots);
  const demand = parseDemand(request.volume_capability);
  const volumeId = requireVolumeId(request.volume_id);
  checkVolumeContext(request.volume_context);
  return { volumeId, target, staging, demand, isReadonly: request.readonly || demand.isReadonly };
}

/** @throws InvalidArgument, FailedPrecondition (A04) */
export function parseDemand(wireCapability: wire.VolumeCapability | null): Demand {
  if (wireCapability === null) throw new InvalidArgument('volume_capability is missing.');
  const capability = parseCapability(wireCapability, (message) => new FailedPrecondition(message));
  const { access, mode } = capability;
  const options = parseMountFlags(access.type === 'mount' ? access.mountFlags : []);
  return { capability, options, isReadonly: isReaderOnly(mode) || options.attributes.readonly === true };
}

/** @throws NotFound for what cannot be an id of ours: it gets no further than this */
export function requireVolumeId(text: string): VolumeId {
  const id = parseVolumeId(text);
  if (id === undefined) throw new NotFound(`There is no volume ${JSON.stringify(text)} on this node.`);
  return id;
}

/** What container orchestrators put into volume_context by themselves (ST11). */
const injectedKey = /^(csi\.storage\.k8s\.io\/|storage\.kubernetes\.io\/csiProvisionerIdentity$)/;

/** Our volumes have an empty context, so any key of another kind belongs to another volume. */
function checkVolumeContext(context: Readonly<Record<string, string>>): void {
  const foreign = Object.keys(context).find((key) => !injectedKey.test(key));
  if (foreign === undefined) return;
  throw new InvalidArgument(
    `volume_context has the key ${JSON.stringify(foreign)}, which no volume of this driver has.`,
  );
}

/** @throws FailedPrecondition if the volume cannot be used as asked for (ST07, PB12) */
export function requireFit(record: VolumeRecord, { capability }: Demand): void {
  const reason = excess(record, capability);
  if (reason !== undefined) throw new FailedPrecondition(`volume ${record.id}: ${reason}.`);
}

/** Equal for requests that may share one answer; secrets are no part of it. */
export function fingerprint(request: object): string {
  return JSON.stringify(request, (_key, value: unknown) => (typeof value === 'bigint' ? `${value}` : value));
}
