import type * as wire from '../../csi/generated/types.ts';
import type { PublishContext, Publisher } from '../../pool/pool.ts';
import type { Pools } from '../../pool/pools.ts';
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
  const handle = parseHandle(request.volume_id);
  if (handle === undefined || !mayBeProvided(controller, handle) || Object.keys(given).length === 0) return false;
  const { context, kind } = kindOfContext(given, nodeKinds);
  kind.requireHandle?.(handle, context);
  kind.read(context, { access: access.type, fsType: access.type === 'mount' ? access.fsType : undefined });
  return true;
}

/** For volumes that something outside of the nodes attaches: one of the pools can. */
export async function publishProvided(
  { objects, pools }: ControllerContext,
  handle: string,
  nodeId: string,
): Promise<PublishContext> {
  const publisher = publisherFor(pools, handle);
  if (publisher === undefined) return {};
  return await objects.run(handle, 'ControllerPublishVolume', nodeId, async () => {
    await publisher.requireNode(nodeId);
    return await publisher.publishProvided(handle, nodeId);
  });
}

/** @param nodeId empty: of all nodes */
export async function unpublishProvided(
  { nodeKinds, objects, pools }: ControllerContext,
  handle: string,
  nodeId: string,
): Promise<void> {
  const publisher = nodeKinds === undefined ? undefined : publisherFor(pools, handle);
  if (publisher === undefined) return;
  await objects.run(handle, 'ControllerUnpublishVolume', nodeId, () =>
    publisher.unpublishProvided(handle, nodeId === '' ? undefined : nodeId),
  );
}

function publisherFor(pools: Pools, handle: string): Publisher | undefined {
  return pools
    .all()
    .map(({ cluster }) => cluster?.publisher)
    .find((publisher) => publisher?.reaches(handle) === true);
}
