import type * as wire from '../csi/generated/types.ts';
import { parseCapability } from '../csi/parse.ts';
import type { ContextDemand, VolumeContext, VolumeOnNode } from '../pool/node-side.ts';
import { isFirstUse } from '../pool/publish-context.ts';
import { ownContext } from '../pool/volume-context.ts';
import { excess, isReaderOnly, type VolumeCapability } from '../volume/capability.ts';
import { FailedPrecondition, InvalidArgument, NotFound } from '../volume/errors.ts';
import { parseHandle, type VolumeHandle } from '../volume/handle.ts';
import { Secrets } from '../volume/secrets.ts';
import { type MountOptions, parseMountFlags } from './mount-options.ts';
import { parseTargetPath, type TargetPath } from './path/target.ts';

/** The requested use of a volume. */
export interface Demand {
  readonly capability: VolumeCapability;
  readonly options: MountOptions;
  /** By the access mode, or by a mount flag: then every mount of the volume is (A02). */
  readonly isReadonly: boolean;
}

export interface StageRequest {
  readonly volumeId: VolumeHandle;
  readonly context: VolumeContext;
  readonly staging: TargetPath;
  readonly demand: Demand;
  readonly secrets: Secrets;
  /** ControllerPublishVolume says that no other node ever had the volume. */
  readonly isFirstUse: boolean;
}

export interface PublishRequest {
  readonly volumeId: VolumeHandle;
  readonly context: VolumeContext;
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
  const volumeId = requireHandle(request.volume_id);
  return {
    volumeId,
    staging,
    demand,
    context: ownContext(request.volume_context),
    secrets: new Secrets(request.secrets),
    isFirstUse: isFirstUse(request.publish_context),
  };
}

/** @throws InvalidArgument, NotFound, FailedPrecondition (A04) */
export function parsePublishRequest(request: wire.NodePublishVolumeRequest, roots: readonly string[]): PublishRequest {
  const target = parseTargetPath('target_path', request.target_path, roots);
  const { staging_target_path: stagingText } = request;
  const staging = stagingText === '' ? undefined : parseTargetPath('staging_target_path', stagingText, roots);
  const demand = parseDemand(request.volume_capability);
  const volumeId = requireHandle(request.volume_id);
  const context = ownContext(request.volume_context);
  return { volumeId, target, staging, demand, context, isReadonly: request.readonly || demand.isReadonly };
}

/** @throws InvalidArgument, FailedPrecondition (A04) */
export function parseDemand(wireCapability: wire.VolumeCapability | null): Demand {
  if (wireCapability === null) throw new InvalidArgument('volume_capability is missing.');
  const capability = parseCapability(wireCapability, (message) => new FailedPrecondition(message));
  const { access, mode } = capability;
  const options = parseMountFlags(access.type === 'mount' ? access.mountFlags : []);
  return { capability, options, isReadonly: isReaderOnly(mode) || options.attributes.readonly === true };
}

/** @throws NotFound for what cannot be the id of a volume: it gets no further than this */
export function requireHandle(text: string): VolumeHandle {
  const handle = parseHandle(text);
  if (handle === undefined) throw new NotFound(`There is no volume ${JSON.stringify(text)} on this node.`);
  return handle;
}

/** The PersistentVolume's values for its volume beside the context. */
export function contextDemand({ capability: { access } }: Demand): ContextDemand {
  return { access: access.type, fsType: access.type === 'mount' ? access.fsType : undefined };
}

/** @throws FailedPrecondition if the volume cannot be used as asked for (ST07, PB12) */
export function requireFit(volume: VolumeOnNode, { capability }: Demand): void {
  const reason = excess(volume, capability);
  if (reason !== undefined) throw new FailedPrecondition(`volume ${volume.handle}: ${reason}.`);
}
