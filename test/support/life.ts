import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import type { DriverClient } from './client.ts';
import type { Scratch } from './scratch.ts';

/** A small volume with ext4, or what the capability makes of it, and its places below the scratch directory's kubelet. */
export class TestVolume {
  readonly name: string;
  readonly stagingPath: string;
  readonly targetPath: string;
  readonly capability: Draft<wire.VolumeCapability>;

  constructor(scratch: Scratch, name: string, capability: Draft<wire.VolumeCapability> = mountWith('ext4')) {
    this.name = name;
    this.stagingPath = scratch.join('kubelet', name, 'globalmount');
    this.targetPath = scratch.join('kubelet', name, 'mount');
    this.capability = capability;
    mkdirSync(this.stagingPath, { recursive: true });
  }

  async create(client: DriverClient, parameters: Record<string, string> = {}): Promise<string> {
    const { volume } = await client.controller.CreateVolume({
      name: this.name,
      capacity_range: { required_bytes: 64n << 20n },
      volume_capabilities: [this.capability],
      parameters,
    });
    if (volume === null) throw new Error('CreateVolume answered without a volume');
    return volume.volume_id;
  }

  async stage(client: DriverClient, volume_id: string): Promise<void> {
    const { capability: volume_capability, stagingPath: staging_target_path } = this;
    await client.node.NodeStageVolume({ volume_id, staging_target_path, volume_capability });
  }

  async publish(client: DriverClient, volume_id: string, readonly = false): Promise<void> {
    const { capability: volume_capability, stagingPath: staging_target_path, targetPath: target_path } = this;
    await client.node.NodePublishVolume({
      volume_id,
      staging_target_path,
      target_path,
      volume_capability,
      readonly,
    });
  }

  async unpublish(client: DriverClient, volume_id: string): Promise<void> {
    await client.node.NodeUnpublishVolume({ volume_id, target_path: this.targetPath });
  }

  async unstage(client: DriverClient, volume_id: string): Promise<void> {
    await client.node.NodeUnstageVolume({ volume_id, staging_target_path: this.stagingPath });
  }

  /** From nothing to a place where a pod could use it. */
  bringUp(client: DriverClient): Promise<string> {
    return this.#bringUp(client, {});
  }

  /** The same in a pool of this name. */
  bringUpIn(client: DriverClient, pool: string): Promise<string> {
    return this.#bringUp(client, { pool });
  }

  async #bringUp(client: DriverClient, parameters: Record<string, string>): Promise<string> {
    const id = await this.create(client, parameters);
    await this.stage(client, id);
    await this.publish(client, id);
    return id;
  }

  /** And back to nothing. */
  async tearDown(client: DriverClient, id: string): Promise<void> {
    await this.unpublish(client, id);
    await this.unstage(client, id);
    await client.controller.DeleteVolume({ volume_id: id });
  }

  file(name: string): string {
    return join(this.targetPath, name);
  }
}

export function mountWith(fs_type: string): Draft<wire.VolumeCapability> {
  return { mount: { fs_type }, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
}
