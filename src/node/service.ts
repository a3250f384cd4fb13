import type { NodeHandlers } from '../csi/generated/types.ts';
import { parseCapability, parseCapacityRange, type TopologySegments } from '../csi/parse.ts';
import { shortMessage } from '../csi/short-message.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { VolumeSource } from '../pool/node-side.ts';
import type { Pools } from '../pool/pools.ts';
import { RecordedVolumes } from '../pool/recorded-volumes.ts';
import { InternalError, InvalidArgument } from '../volume/errors.ts';
import { fingerprint, ObjectQueue } from '../volume/flow/object-queue.ts';
import { parseHandle, type VolumeHandle } from '../volume/handle.ts';
import { ephemeralIdFor, parseVolumeId, type VolumeId } from '../volume/id.ts';
import type { InlineContext, NodeContext } from './context.ts';
import { isEphemeral } from './ephemeral/attributes.ts';
import { LateRemovals } from './ephemeral/late-removals.ts';
import { publishEphemeral } from './ephemeral/publish.ts';
import { parseEphemeralRequest } from './ephemeral/request.ts';
import { expandVolume } from './expand.ts';
import { Notes, type NotesPlace } from './notes.ts';
import { asConcurrentChange } from './path/concurrent-change.ts';
import { StatsReader } from './path/stats.ts';
import { normalizeRoot, parseTargetPath, type TargetPath } from './path/target.ts';
import { publishVolume } from './publish/publish.ts';
import { unpublishVolume } from './publish/unpublish.ts';
import { parsePublishRequest, parseStageRequest, requireHandle } from './request.ts';
import { SilentStages, type Unasked } from './stage/silent-stages.ts';
import { stageVolume } from './stage/stage.ts';
import { unstageVolume } from './stage/unstage.ts';

export interface NodeOptions {
  readonly nodeId: string;
  /** Where this node is: what every volume made here has (NI03). undefined: any node can reach its volumes. */
  readonly topology: TopologySegments | undefined;
  /** This node's own pools; undefined: `volumes` says where volumes come from. */
  readonly pools?: Pools | undefined;
  /** undefined: the records of the pools. */
  readonly volumes?: VolumeSource;
  /** Shared with the controller service: one call at a time for one volume. */
  readonly objects: ObjectQueue;
  /** Only under these directories is anything mounted, made or removed. */
  readonly targetRoots: readonly string[];
  readonly notes: NotesPlace;
  /** True: a volume must be published to this node (ControllerPublishVolume) before it is staged. */
  readonly attachRequired?: boolean;
  /**
   * The number of volumes that may be used on this node at a time; 0, as without it: as many as the scheduler puts here
   * (NI03).
   */
  readonly maxVolumesPerNode?: number;
  /** The largest inline volume that a pod may ask for; undefined: any that its pool has room for. */
  readonly maxInlineSizeBytes?: bigint | undefined;
  /** For the directories of the container orchestrator, which lie on no pool. */
  readonly queue: DiskQueue;
  /** Asks the cloud what this node is there; unset: it is no machine of one. */
  readonly readInstance?: (() => Promise<CloudInstance>) | undefined;
  /** Waits some seconds for a volume that is about to come here from another node or pool; unset: volumes do not move. */
  readonly arrival?: ((id: VolumeId) => Promise<void>) | undefined;
  /** For volumes on servers; unset: there are none. */
  readonly unasked?: Unasked | undefined;
}

/** A node as its cloud knows it. */
export interface CloudInstance {
  readonly id: string;
  readonly topology: TopologySegments;
  /** 0: no limit. */
  readonly maxVolumes: number;
}

const capabilities = [
  'STAGE_UNSTAGE_VOLUME',
  'GET_VOLUME_STATS',
  'EXPAND_VOLUME',
  'VOLUME_CONDITION',
  'SINGLE_NODE_MULTI_WRITER',
] as const;

/** The Node service, for the volumes of this node's own pools. */
export function nodeService(options: NodeOptions): NodeHandlers {
  const { objects, maxVolumesPerNode = 0, nodeId, topology } = options;
  const context = nodeContext(options);
  const { targetRoots } = context;
  const stats = new StatsReader(context);
  const { inline } = context;
  const unstage = (volumeId: string, staging: TargetPath) =>
    objects.run(volumeId, 'NodeUnstageVolume', staging.path, () =>
      onPath(context, staging, volumeId, () => unstageVolume(context, { volumeId, staging })),
    );
  const silentStages =
    options.unasked &&
    new SilentStages({
      ...options.unasked,
      context,
      unstage: async (volumeId, path) => unstage(volumeId, parseTargetPath('staging_target_path', path, targetRoots)),
    });
  silentStages?.resume();
  /** A text that is no id of ours may be the handle of an ephemeral volume. */
  const publishedId = (text: string): VolumeHandle | undefined =>
    inline === undefined ? parseHandle(text) : (parseVolumeId(text) ?? ephemeralIdFor(nodeId, text));

  return {
    async NodeStageVolume(request, call) {
      const parsed = parseStageRequest(request, targetRoots);
      silentStages?.used(parsed.volumeId);
      // Before the volume has its turn, which its move needs, too.
      const moving = parseVolumeId(parsed.volumeId);
      if (moving !== undefined) await options.arrival?.(moving);
      const notGrown = await objects.run(parsed.volumeId, 'NodeStageVolume', fingerprint(parsed), () =>
        onPath(context, parsed.staging, parsed.volumeId, () => stageVolume(context, parsed)),
      );
      if (notGrown !== undefined) call.note({ not_grown: notGrown });
      return {};
    },

    async NodeUnstageVolume({ staging_target_path, volume_id: volumeId }) {
      await unstage(volumeId, parseTargetPath('staging_target_path', staging_target_path, targetRoots));
      return {};
    },

    async NodePublishVolume(request) {
      if (isEphemeral(request.volume_context)) {
        if (inline === undefined) throw new InvalidArgument('This driver has no inline volumes of pods: use a claim.');
        const parsed = parseEphemeralRequest(request, nodeId, targetRoots);
        await objects.run(parsed.volumeId, 'NodePublishVolume', fingerprint(parsed), () =>
          onPath(context, parsed.target, parsed.volumeId, () => publishEphemeral(context, inline, parsed)),
        );
        return {};
      }
      const parsed = parsePublishRequest(request, targetRoots);
      silentStages?.used(parsed.volumeId, parsed.target.path);
      await objects.run(parsed.volumeId, 'NodePublishVolume', fingerprint(parsed), () =>
        onPath(context, parsed.target, parsed.volumeId, () => publishVolume(context, parsed)),
      );
      return {};
    },

    async NodeUnpublishVolume({ target_path, volume_id }) {
      const target = parseTargetPath('target_path', target_path, targetRoots);
      const volumeId = publishedId(volume_id);
      // No volume has such an id, so none is published.
      if (volumeId === undefined) return {};
      const request = { volumeId, isEphemeral: inline !== undefined && volumeId !== volume_id, target };
      await objects.run(volumeId, 'NodeUnpublishVolume', target.path, () =>
        onPath(context, target, volumeId, () => unpublishVolume(context, request)),
      );
      silentStages?.left(volumeId, target.path);
      return {};
    },

    async NodeGetVolumeStats({ volume_id, volume_path }) {
      const { condition, usage } = await stats.read(publishedId(volume_id) ?? requireHandle(volume_id), volume_path);
      const { abnormal, message } = condition;
      return { usage: [...usage], volume_condition: { abnormal, message: shortMessage(message) } };
    },

    async NodeExpandVolume({ capacity_range, volume_capability, volume_id, volume_path: path }) {
      const volumeId = requireHandle(volume_id);
      const range = parseCapacityRange(capacity_range);
      const capability =
        volume_capability === null
          ? undefined
          : parseCapability(volume_capability, (message) => new InvalidArgument(message));
      const request = { volumeId, path, range, capability };
      const capacity_bytes = await objects.run(volumeId, 'NodeExpandVolume', fingerprint(request), () =>
        expandVolume(context, request),
      );
      return { capacity_bytes };
    },

    async NodeGetCapabilities() {
      return { capabilities: capabilities.map((type) => ({ rpc: { type } })) };
    },

    async NodeGetInfo() {
      const instance = await options.readInstance?.();
      if (instance !== undefined) {
        return {
          node_id: instance.id,
          max_volumes_per_node: BigInt(maxVolumesPerNode === 0 ? instance.maxVolumes : maxVolumesPerNode),
          accessible_topology: { segments: instance.topology },
        };
      }
      return {
        node_id: nodeId,
        max_volumes_per_node: BigInt(maxVolumesPerNode),
        ...(topology === undefined ? {} : { accessible_topology: { segments: topology } }),
      };
    },
  };
}

function nodeContext({
  attachRequired,
  maxInlineSizeBytes,
  objects,
  queue,
  nodeId,
  notes: place,
  pools,
  targetRoots,
  volumes = pools && new RecordedVolumes(pools),
}: NodeOptions): NodeContext {
  let notes: Promise<Notes> | undefined;
  if (volumes === undefined) throw new InternalError('a node service needs pools, or another source of volumes.');
  return {
    volumes,
    inline: pools && inlineContext(pools, { maxInlineSizeBytes, objects, queue }),
    queue,
    targetRoots: targetRoots.map(normalizeRoot),
    paths: new ObjectQueue(),
    attachedTo: attachRequired === true ? nodeId : undefined,
    notes() {
      notes ??= Notes.open(place, queue).catch((error) => {
        // Tried again with the next call.
        notes = undefined;
        throw error;
      });
      return notes;
    },
  };
}

function inlineContext(
  pools: Pools,
  { maxInlineSizeBytes, objects, queue }: Pick<NodeOptions, 'maxInlineSizeBytes' | 'objects' | 'queue'>,
): InlineContext {
  const lateRemovals = new LateRemovals(pools, objects, queue);
  lateRemovals.resume();
  return { pools, lateRemovals, maxInlineSizeBytes };
}

/** One call at a time for one path, even for different volumes: mounts must not be stacked (PB18). */
function onPath<T>(context: NodeContext, { path }: TargetPath, volumeId: string, work: () => Promise<T>): Promise<T> {
  return context.paths.claim([{ object: path }], `a call for ${volumeId}`, () =>
    work().catch((error) => {
      throw asConcurrentChange(error, path);
    }),
  );
}
