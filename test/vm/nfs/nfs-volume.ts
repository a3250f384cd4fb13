import type * as wire from '../../../src/csi/generated/types.ts';
import type { Draft } from '../../../src/csi/handler.ts';
import type { GuestNode } from '../node/guest-node.ts';

/** Far more than any call takes; machines that are emulated on a busy host are slow. */
const deadlineMs = 300_000;
const sizeBytes = 32n << 20n;
let count = 0;

const volume_capability: Draft<wire.VolumeCapability> = {
  mount: { fs_type: 'nfs4' },
  access_mode: { mode: 'MULTI_NODE_MULTI_WRITER' },
};

/** A volume that every node can reach, as its callers see it: its context goes with each stage and publish. */
export class NfsVolume {
  readonly node: GuestNode;
  readonly id: string;
  readonly context: Readonly<Record<string, string>>;
  readonly stagingPath: string;
  readonly targetPath: string;

  /** @param id and context: as a person wrote them, or as CreateVolume answered */
  constructor(node: GuestNode, id: string, context: Readonly<Record<string, string>>) {
    this.node = node;
    this.id = id;
    this.context = context;
    const name = `nfs-${count++}`;
    this.stagingPath = `${node.kubeletDirectory}/plugins/${name}/globalmount`;
    this.targetPath = `${node.kubeletDirectory}/pods/${name}/volume`;
  }

  static async create(node: GuestNode, pool: string): Promise<NfsVolume> {
    const { volume } = await node.client.controller.CreateVolume(
      {
        name: `nfs-${pool}-${count}`,
        capacity_range: { required_bytes: sizeBytes },
        volume_capabilities: [volume_capability],
        parameters: { pool },
      },
      { deadlineMs },
    );
    if (volume === null) throw new Error('no volume');
    return new NfsVolume(node, volume.volume_id, volume.volume_context);
  }

  /** Staged and published. @param targetPath another one than the first pod's */
  async use(targetPath = this.targetPath): Promise<void> {
    const { context: volume_context, id: volume_id, node, stagingPath: staging_target_path } = this;
    const parent = targetPath.slice(0, targetPath.lastIndexOf('/'));
    await node.vm.task('makeDirectories', [staging_target_path, parent]);
    const request = { volume_id, volume_context, staging_target_path, volume_capability };
    await node.client.node.NodeStageVolume(request, { deadlineMs });
    await node.client.node.NodePublishVolume({ ...request, target_path: targetPath }, { deadlineMs });
  }

  async leave(): Promise<void> {
    await this.unpublish();
    await this.unstage();
  }

  async unpublish(): Promise<void> {
    const { id: volume_id, node, targetPath: target_path } = this;
    await node.client.node.NodeUnpublishVolume({ volume_id, target_path }, { deadlineMs });
  }

  async unstage(): Promise<void> {
    const { id: volume_id, node, stagingPath: staging_target_path } = this;
    await node.client.node.NodeUnstageVolume({ volume_id, staging_target_path }, { deadlineMs });
  }

  async delete(): Promise<void> {
    await this.node.client.controller.DeleteVolume({ volume_id: this.id }, { deadlineMs });
  }

  async stats(): Promise<wire.NodeGetVolumeStatsResponse> {
    return await this.node.client.node.NodeGetVolumeStats(
      { volume_id: this.id, volume_path: this.targetPath },
      { deadlineMs },
    );
  }
}

/** The whole life of a volume. @returns its time in ms */
export async function lifeOf(node: GuestNode, pool: string): Promise<number> {
  const startedMs = performance.now();
  const volume = await NfsVolume.create(node, pool);
  await volume.use();
  await volume.leave();
  await volume.delete();
  return performance.now() - startedMs;
}
