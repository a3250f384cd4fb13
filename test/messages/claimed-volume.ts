import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import type { DriverClient } from '../support/client.ts';
import { mountWith } from '../support/life.ts';
import type { Scratch } from '../support/scratch.ts';

/** Where it all happens. */
export interface Stage {
  readonly scratch: Scratch;
  /** Of a driver with the pools `default`, which shares blocks, `plain`, which cannot, and `small`, on a disk of its own. */
  readonly client: DriverClient;
  /** Of a driver with the pools `default` and `broken`, whose disk is missing. */
  readonly half: DriverClient;
}

/** A pod's, or a claim's. */
export const uid = (last: number) => `1f0c2d3e-4a5b-4c6d-8e7f-90a1b2c3d4e${last}`;

/** A claim's volume, at paths such as the kubelet makes up. */
export class ClaimedVolume {
  static #count = 0;
  readonly name = `pvc-${uid(ClaimedVolume.#count++ % 10)}`;
  readonly staging: string;
  readonly #stage: Stage;
  readonly #parameters: Record<string, string>;
  id = '';

  constructor(stage: Stage, parameters: Record<string, string> = {}) {
    this.#stage = stage;
    this.#parameters = parameters;
    this.staging = stage.scratch.join(
      'kubelet/plugins/kubernetes.io/csi/holdfast.csi.dev',
      `${ClaimedVolume.#count}`.padStart(64, '0123456789abcdef'),
      'globalmount',
    );
    mkdirSync(this.staging, { recursive: true });
  }

  target(pod = 1): string {
    const path = `kubelet/pods/${uid(pod)}/volumes/kubernetes.io~csi/${this.name}/mount`;
    return this.#stage.scratch.join(path);
  }

  async create(changes: Draft<wire.CreateVolumeRequest> = {}): Promise<this> {
    const { volume } = await this.#stage.client.controller.CreateVolume(this.request(changes));
    this.id = volume?.volume_id ?? '';
    return this;
  }

  request(changes: Draft<wire.CreateVolumeRequest> = {}): Draft<wire.CreateVolumeRequest> {
    return {
      name: this.name,
      capacity_range: { required_bytes: 64n << 20n },
      volume_capabilities: [mountWith('ext4')],
      parameters: this.#parameters,
      ...changes,
    };
  }

  async stage(volume_capability = mountWith('ext4')): Promise<this> {
    const request = { volume_id: this.id, staging_target_path: this.staging, volume_capability };
    await this.#stage.client.node.NodeStageVolume(request);
    return this;
  }

  async publish(pod = 1, volume_capability = mountWith('ext4'), readonly = false): Promise<this> {
    const target_path = this.target(pod);
    mkdirSync(dirname(target_path), { recursive: true });
    const request = { volume_id: this.id, staging_target_path: this.staging, target_path, volume_capability };
    await this.#stage.client.node.NodePublishVolume({ ...request, readonly });
    return this;
  }

  async unpublish(pod = 1): Promise<void> {
    await this.#stage.client.node.NodeUnpublishVolume({ volume_id: this.id, target_path: this.target(pod) });
  }

  async unstage(): Promise<void> {
    await this.#stage.client.node.NodeUnstageVolume({ volume_id: this.id, staging_target_path: this.staging });
  }

  async remove(): Promise<void> {
    await this.#stage.client.controller.DeleteVolume({ volume_id: this.id });
  }

  async down(): Promise<void> {
    await this.unpublish();
    await this.unstage();
    await this.remove();
  }
}
