import { join } from 'node:path';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import type { CallOptions, DriverClient } from './client.ts';
import { eventually } from './eventually.ts';

type Capability = Draft<wire.VolumeCapability>;
type Mode = wire.VolumeCapabilityAccessModeMode;

/** A capability for a filesystem volume. */
export function mountCapability(mode: Mode = 'SINGLE_NODE_WRITER', flags: string[] = [], fsType = ''): Capability {
  return { access_mode: { mode }, mount: { fs_type: fsType, mount_flags: flags } };
}

/** A capability for a block volume. */
export function blockCapability(mode: Mode = 'SINGLE_NODE_WRITER'): Capability {
  return { access_mode: { mode }, block: {} };
}

/** The filesystem volumes under test, each with the smallest size that its mkfs takes. */
export const filesystems: readonly { fsType: 'ext4' | 'xfs' | 'btrfs'; sizeBytes: bigint }[] = [
  { fsType: 'ext4', sizeBytes: 64n << 20n },
  { fsType: 'xfs', sizeBytes: 320n << 20n },
  { fsType: 'btrfs', sizeBytes: 160n << 20n },
];

type Context = Readonly<Record<string, string>>;
type StageChanges = Draft<Partial<wire.NodeStageVolumeRequest>>;
type PublishChanges = Draft<Partial<wire.NodePublishVolumeRequest>>;

/** A volume and the calls about it, with the usual arguments unless a test says otherwise. */
export class TestVolume {
  readonly #node: () => DriverClient['node'];
  readonly id: VolumeId;
  readonly staging: string;
  /** The directory that targets lie in. */
  readonly pod: string;
  readonly target: string;
  readonly capability: Capability;

  /** @param node the service, whichever driver runs it at the time of a call */
  constructor(node: () => DriverClient['node'], id: VolumeId, staging: string, pod: string, capability: Capability) {
    this.#node = node;
    this.id = id;
    this.staging = staging;
    this.pod = pod;
    this.target = join(pod, 'mount');
    this.capability = capability;
  }

  stage(changes: StageChanges = {}, options?: CallOptions) {
    const { capability: volume_capability, id: volume_id, staging: staging_target_path } = this;
    return this.#node().NodeStageVolume({ volume_id, staging_target_path, volume_capability, ...changes }, options);
  }

  unstage(staging_target_path = this.staging) {
    return this.#node().NodeUnstageVolume({ volume_id: this.id, staging_target_path });
  }

  publish(changes: PublishChanges = {}) {
    return this.#node().NodePublishVolume({
      volume_id: this.id,
      staging_target_path: this.staging,
      target_path: this.target,
      volume_capability: this.capability,
      ...changes,
    });
  }

  unpublish(target_path = this.target) {
    return this.#node().NodeUnpublishVolume({ volume_id: this.id, target_path });
  }

  stats(volume_path = this.target) {
    return this.#node().NodeGetVolumeStats({ volume_id: this.id, volume_path });
  }

  expand(requiredBytes: bigint | undefined, volume_path = this.target) {
    const capacity_range = requiredBytes === undefined ? null : { required_bytes: requiredBytes };
    return this.#node().NodeExpandVolume({ volume_id: this.id, volume_path, capacity_range });
  }

  /** Stages and publishes it. */
  async up(volume_context: Context, secrets: Context = {}): Promise<void> {
    await this.stage({ volume_context, secrets });
    await this.publish({ volume_context });
  }

  /** Undoes both, as the end of every test that left nothing in between. */
  async down(): Promise<void> {
    await this.unpublish();
    // The kubelet repeats it as well: on a busy machine its filesystem may still be written back.
    await eventually(async () => void (await this.unstage()));
  }
}
