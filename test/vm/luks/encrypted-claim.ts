import type * as wire from '../../../src/csi/generated/types.ts';
import type { Draft } from '../../../src/csi/handler.ts';
import { volumeIdFor } from '../../../src/volume/id.ts';
import { type GuestNode, nodeId } from '../node/guest-node.ts';

type Given = Readonly<Record<string, string>>;

/** Far more than any call takes. */
const options = { deadlineMs: 300_000 };

/** An encrypted volume as Kubernetes asks for it: what a call has of secrets, its caller says. */
export class EncryptedClaim {
  readonly id: string;
  readonly targetPath: string;
  readonly #name: string;
  readonly #node: GuestNode;
  readonly #stagingPath: string;

  readonly #sizeBytes: bigint;
  readonly #capability: Draft<wire.VolumeCapability>;

  constructor(node: GuestNode, name: string, sizeBytes: bigint, content: 'ext4' | 'block' = 'ext4') {
    this.#sizeBytes = sizeBytes;
    this.#capability = {
      ...(content === 'block' ? { block: {} } : { mount: { fs_type: content } }),
      access_mode: { mode: 'SINGLE_NODE_WRITER' },
    };
    this.#node = node;
    this.#name = name;
    this.id = volumeIdFor(nodeId, 'default', name);
    this.#stagingPath = `${node.kubeletDirectory}/plugins/${name}/globalmount`;
    this.targetPath = `${node.kubeletDirectory}/pods/${name}/volume`;
  }

  async create(secrets: Given, source?: Draft<wire.VolumeContentSource>): Promise<void> {
    await this.#node.client.controller.CreateVolume(
      {
        name: this.#name,
        capacity_range: { required_bytes: this.#sizeBytes },
        volume_capabilities: [this.#capability],
        parameters: { encryption: 'luks2' },
        volume_content_source: source ?? null,
        secrets,
      },
      options,
    );
  }

  async stage(secrets: Given): Promise<void> {
    await this.#node.vm.task('makeDirectories', [this.#stagingPath]);
    await this.#node.client.node.NodeStageVolume({ ...this.#staged, secrets }, options);
  }

  async publish(): Promise<void> {
    const parent = this.targetPath.slice(0, this.targetPath.lastIndexOf('/'));
    await this.#node.vm.task('makeDirectories', [parent]);
    await this.#node.client.node.NodePublishVolume({ ...this.#staged, target_path: this.targetPath }, options);
  }

  /** As it is mounted. */
  async expand(sizeBytes: bigint, secrets: Given): Promise<void> {
    const capacity_range = { required_bytes: sizeBytes };
    const request = { ...this.#staged, volume_path: this.targetPath, capacity_range, secrets };
    await this.#node.client.node.NodeExpandVolume(request, options);
  }

  async snapshot(name: string): Promise<string> {
    const { snapshot } = await this.#node.client.controller.CreateSnapshot(
      { name, source_volume_id: this.id },
      options,
    );
    return snapshot?.snapshot_id ?? '';
  }

  async unpublish(): Promise<void> {
    const { id: volume_id, targetPath: target_path } = this;
    await this.#node.client.node.NodeUnpublishVolume({ volume_id, target_path }, options);
  }

  async unstage(): Promise<void> {
    await this.#node.client.node.NodeUnstageVolume(
      { volume_id: this.id, staging_target_path: this.#stagingPath },
      options,
    );
  }

  /** Deleted, it can be brought back for an hour. */
  async keep(): Promise<void> {
    const mutable_parameters = { undelete: '1h' };
    await this.#node.client.controller.ControllerModifyVolume({ volume_id: this.id, mutable_parameters }, options);
  }

  async delete(): Promise<void> {
    await this.#node.client.controller.DeleteVolume({ volume_id: this.id }, options);
  }

  get #staged() {
    return { volume_id: this.id, staging_target_path: this.#stagingPath, volume_capability: this.#capability };
  }
}
