import type * as wire from '../../../src/csi/generated/types.ts';
import type { Draft } from '../../../src/csi/handler.ts';
import type { Layout } from '../../../src/volume/layout.ts';
import type { GuestNode } from './guest-node.ts';

/** What is in it: a filesystem, or what its user puts there. */
export type Content = 'ext4' | 'xfs' | 'block' | 'directory';

/** Far more than any call takes; machines that are emulated on a busy host are slow. */
const deadlineMs = 300_000;

export interface GuestVolumeOptions {
  readonly name: string;
  readonly content: Content;
  readonly pool: string;
  /** Of one that is made anew; what is made from a snapshot is as that is. */
  readonly encryption?: 'luks2' | undefined;
  readonly layout?: Layout | undefined;
}

/** One volume as its callers see it: every call with the arguments that it always has. */
export class GuestVolume {
  readonly name: string;
  readonly content: Content;
  readonly pool: string;
  readonly stagingPath: string;
  readonly targetPath: string;
  readonly node: GuestNode;
  readonly id: string;
  /** What its class says. */
  readonly #parameters: Readonly<Record<string, string>>;

  constructor(node: GuestNode, id: string, { content, encryption, layout, name, pool }: GuestVolumeOptions) {
    this.#parameters = { pool, ...(encryption && { encryption }), ...(layout && { layout }) };
    this.node = node;
    this.id = id;
    this.name = name;
    this.content = content;
    this.pool = pool;
    this.stagingPath = `${node.kubeletDirectory}/plugins/${name}/globalmount`;
    this.targetPath = `${node.kubeletDirectory}/pods/${name}/volume`;
  }

  async create(sizeBytes: bigint, snapshotId?: string): Promise<void> {
    const { volume } = await this.node.client.controller.CreateVolume(
      {
        name: this.name,
        capacity_range: { required_bytes: sizeBytes },
        volume_capabilities: [this.#capability],
        parameters: this.#parameters,
        volume_content_source: snapshotId === undefined ? null : { snapshot: { snapshot_id: snapshotId } },
      },
      { deadlineMs },
    );
    if (volume?.volume_id !== this.id) throw new Error(`${this.name}: made as ${volume?.volume_id}, not ${this.id}`);
  }

  async delete(): Promise<void> {
    await this.node.client.controller.DeleteVolume({ volume_id: this.id }, { deadlineMs });
  }

  /** Staged and published. */
  async use(): Promise<void> {
    const { stagingPath, targetPath } = this;
    await this.node.vm.task('makeDirectories', [stagingPath, targetPath.slice(0, targetPath.lastIndexOf('/'))]);
    const request = { volume_id: this.id, staging_target_path: stagingPath, volume_capability: this.#capability };
    await this.node.client.node.NodeStageVolume(request, { deadlineMs });
    await this.node.client.node.NodePublishVolume({ ...request, target_path: targetPath }, { deadlineMs });
  }

  async leave(): Promise<void> {
    const { id: volume_id, stagingPath, targetPath } = this;
    await this.node.client.node.NodeUnpublishVolume({ volume_id, target_path: targetPath }, { deadlineMs });
    await this.node.client.node.NodeUnstageVolume({ volume_id, staging_target_path: stagingPath }, { deadlineMs });
  }

  /** As it is used. */
  async expand(sizeBytes: bigint): Promise<void> {
    const request = {
      volume_id: this.id,
      volume_path: this.targetPath,
      staging_target_path: this.stagingPath,
      capacity_range: { required_bytes: sizeBytes },
      volume_capability: this.#capability,
    };
    await this.node.client.node.NodeExpandVolume(request, { deadlineMs });
  }

  async modify(mutable_parameters: Record<string, string>): Promise<void> {
    await this.node.client.controller.ControllerModifyVolume(
      { volume_id: this.id, mutable_parameters },
      { deadlineMs },
    );
  }

  async snapshot(name: string): Promise<void> {
    await this.node.client.controller.CreateSnapshot({ name, source_volume_id: this.id }, { deadlineMs });
  }

  get #capability(): Draft<wire.VolumeCapability> {
    const fs_type = this.content === 'directory' ? '' : this.content;
    const access = this.content === 'block' ? { block: {} } : { mount: { fs_type } };
    return { ...access, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  }
}
