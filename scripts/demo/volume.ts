import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync } from 'node:fs';
import { open, readFile, statfs, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { VolumeCapability } from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { formatBytes } from '../../src/volume/size.ts';
import type { DriverClient } from '../../test/support/client.ts';
import type { Scratch } from '../../test/support/scratch.ts';

const gibibyte = 1n << 30n;
const fileBytes = 64 << 20;

/** What a volume of the demo is. */
export interface Kind {
  /** Its name, and that of its places below the kubelet's directory. */
  readonly name: string;
  readonly sizeBytes: bigint;
  /** undefined: a raw block volume. */
  readonly fsType: string | undefined;
}

/** A volume as the sidecars and a kubelet handle it. Each method does one thing, checks it, and says what came of it. */
export class DemoVolume {
  readonly #client: DriverClient;
  readonly #kind: Kind;
  readonly #stagingPath: string;
  readonly #targetPath: string;
  readonly #capability: Draft<VolumeCapability>;
  #id = '';

  constructor(client: DriverClient, scratch: Scratch, kind: Kind) {
    const { fsType, name } = kind;
    this.#client = client;
    this.#kind = kind;
    this.#stagingPath = scratch.join('kubelet', name, 'globalmount');
    this.#targetPath = scratch.join('kubelet', name, 'mount');
    this.#capability = {
      ...(fsType === undefined ? { block: {} } : { mount: { fs_type: fsType } }),
      access_mode: { mode: 'SINGLE_NODE_WRITER' },
    };
  }

  get id(): string {
    return this.#id;
  }

  /** Where the volume can be used: a directory, or a device. */
  get targetPath(): string {
    return this.#targetPath;
  }

  get #file(): string {
    return join(this.#targetPath, 'precious');
  }

  /** Empty, or with the content of a snapshot. */
  async create(parameters: Record<string, string> = {}, snapshotId?: string): Promise<string> {
    const { fsType, name, sizeBytes } = this.#kind;
    const { volume } = await this.#client.controller.CreateVolume({
      name: `pvc-${name}`,
      capacity_range: { required_bytes: sizeBytes },
      volume_capabilities: [this.#capability],
      parameters,
      ...(snapshotId !== undefined && { volume_content_source: { snapshot: { snapshot_id: snapshotId } } }),
    });
    if (volume === null) throw new Error('CreateVolume answered without a volume');
    this.#id = volume.volume_id;
    const content = snapshotId === undefined ? `formatted with ${fsType}` : 'with what the snapshot has';
    return `${volume.volume_id}  ${formatBytes(volume.capacity_bytes)}, ${content}`;
  }

  async stage(): Promise<string> {
    mkdirSync(this.#stagingPath, { recursive: true });
    await this.#client.node.NodeStageVolume({
      volume_id: this.#id,
      staging_target_path: this.#stagingPath,
      volume_capability: this.#capability,
    });
    return `${this.#kind.fsType} mounted at …/${this.#kind.name}/globalmount`;
  }

  async publish(): Promise<string> {
    mkdirSync(dirname(this.#targetPath), { recursive: true });
    await this.#client.node.NodePublishVolume({
      volume_id: this.#id,
      staging_target_path: this.#stagingPath,
      target_path: this.#targetPath,
      volume_capability: this.#capability,
    });
    return `bound to …/${this.#kind.name}/mount`;
  }

  /** @returns the checksum of what was written */
  async write(): Promise<string> {
    const data = randomBytes(fileBytes);
    const file = await open(this.#file, 'wx');
    try {
      await file.write(data);
      await file.sync();
    } finally {
      await file.close();
    }
    return sha256(data);
  }

  /** What an operator regrets. */
  async lose(): Promise<string> {
    await unlink(this.#file);
    return 'rm precious';
  }

  async check(checksum: string): Promise<string> {
    const found = sha256(await readFile(this.#file));
    if (found !== checksum) throw new Error(`the data changed: sha256 ${found}, was ${checksum}`);
    return `the same data  sha256 ${found.slice(0, 16)}…`;
  }

  async cut(name: string): Promise<string> {
    const { snapshot } = await this.#client.controller.CreateSnapshot({ source_volume_id: this.#id, name });
    if (snapshot?.ready_to_use !== true) throw new Error('the snapshot is not ready');
    return snapshot.snapshot_id;
  }

  async expand(): Promise<string> {
    const { capacity_bytes } = await this.#client.node.NodeExpandVolume({
      volume_id: this.#id,
      volume_path: this.#targetPath,
      staging_target_path: this.#stagingPath,
      capacity_range: { required_bytes: 2n * gibibyte },
      volume_capability: this.#capability,
    });
    const { blocks, bsize } = await statfs(this.#targetPath, { bigint: true });
    if (blocks * bsize < (gibibyte * 3n) / 2n) throw new Error(`the filesystem still has ${blocks * bsize} bytes`);
    return `to ${formatBytes(capacity_bytes)} while in use; the filesystem has ${formatBytes(blocks * bsize)}`;
  }

  async unpublish(): Promise<string> {
    await this.#client.node.NodeUnpublishVolume({ volume_id: this.#id, target_path: this.#targetPath });
    if (existsSync(this.#targetPath)) throw new Error(`${this.#targetPath} is still there`);
    return 'unmounted, target removed';
  }

  async unstage(): Promise<string> {
    await this.#client.node.NodeUnstageVolume({ volume_id: this.#id, staging_target_path: this.#stagingPath });
    return 'unmounted, loop device gone';
  }

  async delete(): Promise<string> {
    await this.#client.controller.DeleteVolume({ volume_id: this.#id });
    const { entries } = await this.#client.controller.ListVolumes({});
    if (entries.some(({ volume }) => volume?.volume_id === this.#id)) throw new Error('it is still in the list');
    return 'gone from the list';
  }
}

function sha256(data: Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}
