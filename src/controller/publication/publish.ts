import type * as wire from '../../csi/generated/types.ts';
import { parseCapability } from '../../csi/parse.ts';
import type { FoundVolume } from '../../pool/pools.ts';
import { excess, isMultiNode, isReaderOnly, type VolumeCapability } from '../../volume/capability.ts';
import {
  AlreadyExists,
  FailedPrecondition,
  InvalidArgument,
  NotFound,
  ResourceExhausted,
} from '../../volume/errors.ts';
import { fingerprint } from '../../volume/flow/object-queue.ts';
import { parseVolumeId } from '../../volume/id.ts';
import { type Publication, publicationsOf, type VolumeRecord } from '../../volume/record.ts';
import type { ControllerContext } from '../context.ts';
import { requireVolumeId } from '../find.ts';
import { contextMismatch } from '../volumes/validate.ts';
import { isProvided, publishProvided, unpublishProvided } from './provided.ts';

/**
 * With `attach: required` a volume is published to its node before it is staged there. Nothing is attached by that: the
 * volume's record promises that no other node has the volume, or of a volume that every node can reach: which nodes have
 * it.
 */
export function publishHandlers(controller: ControllerContext) {
  const { objects, pools } = controller;
  return {
    async ControllerPublishVolume(request, context) {
      const capability = parseRequest(request);
      if (isProvided(controller, request, capability)) {
        const publish_context = await publishProvided(controller, request.volume_id, request.node_id);
        return { publish_context };
      }
      const id = requireVolumeId(request.volume_id);
      const asked = { nodeId: request.node_id, mode: capability.mode, readonly: request.readonly };
      const { access } = capability;
      // Excludes the mount flags, which are for the node: they may be secrets, and must not be kept here (X02).
      const print = fingerprint({ ...asked, access: access.type === 'mount' ? access.fsType : access.type });
      return objects.run(id, 'ControllerPublishVolume', print, async () => {
        const volume = await pools.require(id);
        const { pool, record } = volume;
        context.note({ pool: pool.name });
        requireContext(volume, request.volume_context);
        requireThisNode(controller, request.node_id);
        const publisher = pool.cluster?.publisher;
        const reason = excess(record, capability);
        if (reason !== undefined) throw new InvalidArgument(`Volume ${id}: ${reason}.`);
        if (!isPublished(record, asked)) {
          // A publication to a node that is not there would never end.
          await publisher?.requireNode(asked.nodeId);
          const others = publicationsOf(record);
          await withRoom(controller, asked.nodeId, async () => {
            await pool.setPublication(id, asked, others);
          });
        }
        const publish_context = await publisher?.publish(record, asked.nodeId);
        return publish_context === undefined ? {} : { publish_context };
      });
    },

    async ControllerUnpublishVolume({ node_id, volume_id }, context) {
      const id = parseVolumeId(volume_id);
      // No volume of ours has such an id, so none is published (CU02), unless a person named it.
      if (id === undefined) {
        await unpublishProvided(controller, volume_id, node_id);
        return {};
      }
      return objects.run(id, 'ControllerUnpublishVolume', node_id, async () => {
        const found = await pools.find(id);
        // The record is no proof: a process that died may have got further than it says.
        for (const { cluster } of found === undefined ? pools.all() : [found.pool]) {
          await cluster?.publisher?.unpublish(id, node_id === '' ? undefined : node_id);
        }
        const published = found === undefined ? [] : publicationsOf(found.record);
        // Unpublishes from this node, or from all (CU03). From another node the volume is unpublished already (CU04).
        const others = published.filter(({ nodeId }) => node_id !== '' && node_id !== nodeId);
        if (found === undefined || others.length === published.length) return {};
        context.note({ pool: found.pool.name });
        const [first, ...rest] = others;
        await found.pool.setPublication(id, first, rest);
        return {};
      });
    },
  } satisfies wire.ControllerHandlers;
}

/** @throws FailedPrecondition (DV06): a published volume is about to be used */
export function refusePublished({ attach }: ControllerContext, record: VolumeRecord): void {
  const [publication] = publicationsOf(record);
  if (attach === 'none' || publication === undefined) return;
  throw new FailedPrecondition(
    `Volume ${record.id} is published to node ${publication.nodeId}: unpublish it first (ControllerUnpublishVolume).`,
  );
}

/** @throws InvalidArgument for a capability that none of our volumes has (CP13) */
function parseRequest(request: wire.ControllerPublishVolumeRequest): VolumeCapability {
  const { volume_capability: capability } = request;
  if (capability === null) throw new InvalidArgument('volume_capability is missing.');
  return parseCapability(capability, (message) => new InvalidArgument(message));
}

/** @throws InvalidArgument (CP13) */
function requireContext(volume: FoundVolume, context: Readonly<Record<string, string>>): void {
  const reason = contextMismatch(volume, context);
  if (reason !== undefined) throw new InvalidArgument(`volume_context is not the volume's: ${reason}.`);
}

/** Volumes on a node's disk lie where they were made. @throws NotFound (CP05) */
function requireThisNode({ nodeId, topology }: ControllerContext, asked: string): void {
  if (topology === undefined || asked === nodeId) return;
  throw new NotFound(`This driver cannot publish to node ${JSON.stringify(asked)}: it serves only node ${nodeId}.`);
}

/** Prevents two concurrent calls from both getting the last place. @throws ResourceExhausted (CP10, CP11) */
function withRoom(controller: ControllerContext, nodeId: string, publish: () => Promise<void>): Promise<void> {
  const { objects, maxVolumesPerNode, pools } = controller;
  if (maxVolumesPerNode === 0) return publish();
  return objects.claim([{ object: `publishing to node ${nodeId}` }], 'ControllerPublishVolume', async () => {
    const lists = await Promise.all(pools.known().map((pool) => pool.list(undefined, undefined)));
    const published = lists.flat().filter((record) => publicationsOf(record).some((each) => each.nodeId === nodeId));
    if (published.length < maxVolumesPerNode) return publish();
    throw new ResourceExhausted(
      `${published.length} volumes are published to node ${nodeId}, and maxVolumesPerNode is ${maxVolumesPerNode}: unpublish one first.`,
    );
  });
}

/**
 * Answers if the volume is published as requested already.
 * @throws FailedPrecondition if it is published to another node (CP09), AlreadyExists if in another way (CP06, CP07)
 */
function isPublished(record: VolumeRecord, asked: Publication): boolean {
  const { id } = record;
  const publications = publicationsOf(record);
  const publication = publications.find(({ nodeId }) => nodeId === asked.nodeId);
  if (publication === undefined) {
    const obstacle = publications.find((each) => !allowsBoth(each, asked));
    if (obstacle === undefined) return false;
    throw new FailedPrecondition(
      `Volume ${id} is published to node ${obstacle.nodeId}: unpublish it there first (ControllerUnpublishVolume).`,
    );
  }
  if (publication.mode === asked.mode && publication.readonly === asked.readonly) return true;
  throw new AlreadyExists(
    `Volume ${id} is published to node ${publication.nodeId} as ${describe(publication)}, not as ${describe(asked)}: unpublish it first.`,
  );
}

/** Answers if two nodes may have the volume at once in these ways; of MULTI_NODE_SINGLE_WRITER only one writes (A01). */
function allowsBoth(one: Publication, other: Publication): boolean {
  if (!isMultiNode(one.mode) || !isMultiNode(other.mode)) return false;
  const isSingleWriter = [one, other].some(({ mode }) => mode === 'MULTI_NODE_SINGLE_WRITER');
  return !isSingleWriter || [one, other].some(({ mode, readonly }) => readonly || isReaderOnly(mode));
}

function describe({ mode, readonly }: Publication): string {
  return readonly ? `${mode}, read-only` : mode;
}
