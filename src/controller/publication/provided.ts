import type * as wire from '../../csi/generated/types.ts';
import { kindOfContext, ownContext } from '../../pool/volume-context.ts';
import type { VolumeCapability } from '../../volume/capability.ts';
import { parseHandle } from '../../volume/handle.ts';
import { parseVolumeId } from '../../volume/id.ts';
import type { ControllerContext } from '../context.ts';

/** Answers if a person may have named a volume so: no pool makes such handles. */
export function mayBeProvided({ nodeKinds }: ControllerContext, handle: string): boolean {
  return nodeKinds !== undefined && parseVolumeId(handle) === undefined && parseHandle(handle) !== undefined;
}

/**
 * Answers if a person named the volume in a PersistentVolume: then no pool has a record of it, and its context says all
 * that a node must know. Kubernetes alone keeps its access modes.
 * @throws InvalidArgument if its context is not the context of any volume
 */
export function isProvided(
  controller: ControllerContext,
  request: Pick<wire.ControllerPublishVolumeRequest, 'volume_context' | 'volume_id'>,
  { access }: VolumeCapability,
): boolean {
  const { nodeKinds = [] } = controller;
  const given = ownContext(request.volume_context);
  if (!mayBeProvided(controller, request.volume_id) || Object.keys(given).length === 0) return false;
  const { context, kind } = kindOfContext(given, nodeKinds);
  kind.read(context, { access: access.type, fsType: access.type === 'mount' ? access.fsType : undefined });
  return true;
}
