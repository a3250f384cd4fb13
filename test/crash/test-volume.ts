import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { type FileHandle, open, readFile, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { deviceNumber } from '../../src/kernel/device.ts';
import type { VolumeContent } from '../../src/volume/capability.ts';
import { type VolumeId, volumeIdFor } from '../../src/volume/id.ts';
import type { DriverClient } from '../support/client.ts';
import { soon } from '../support/eventually.ts';
import { type CrashNode, nodeId } from './crash-node.ts';
import type { CrashPool } from './crash-pool.ts';
import { loopsOver, mountsBelow } from './kernel-sight.ts';

const mebibyte = 1n << 20n;
const dataBytes = 1 << 20;
/** In a block volume, beyond what any filesystem's superblock would overwrite. */
const dataOffset = 8 << 20;

/** The smallest that each filesystem allows, or a little more. */
const sizes: Readonly<Record<string, bigint>> = {
  ext4: 32n * mebibyte,
  xfs: 300n * mebibyte,
  btrfs: 256n * mebibyte,
  block: 32n * mebibyte,
  directory: 32n * mebibyte,
};

/** What a volume is made from, and the data that it has from there. */
export interface Origin {
  readonly source: { readonly snapshot: { snapshot_id: string } } | { readonly volume: { volume_id: string } };
  readonly checksum: string | undefined;
}

/** One volume as its callers see it: every call with the arguments that it always has, and its data. */
export class TestVolume {
  readonly id: VolumeId;
  readonly name: string;
  readonly content: VolumeContent;
  readonly sizeBytes: bigint;
  readonly grownBytes: bigint;
  readonly stagingPath: string;
  readonly targetPath: string;
  readonly node: CrashNode;
  readonly pool: CrashPool;
  /** What was written and fsynced, if anything was. */
  #checksum: string | undefined;
  #origin: Origin | undefined;
  /** How much room there was when it was written. */
  #usableBytes = 0n;

  constructor(node: CrashNode, name: string, content: VolumeContent, pool = node.defaultPool) {
    this.node = node;
    this.pool = pool;
    this.name = name;
    this.id = volumeIdFor(nodeId, pool.name, name);
    this.content = content;
    this.sizeBytes = sizes[content.type === 'mount' ? content.fsType : content.type] ?? 0n;
    this.grownBytes = this.sizeBytes + 32n * mebibyte;
    this.stagingPath = join(node.kubeletDirectory, 'plugins', name, 'globalmount');
    this.targetPath = join(node.kubeletDirectory, 'pods', name, 'volume');
    mkdirSync(this.stagingPath, { recursive: true });
    mkdirSync(join(this.targetPath, '..'), { recursive: true });
  }

  async create(): Promise<void> {
    const { volume } = await this.#client.controller.CreateVolume({
      name: this.name,
      capacity_range: { required_bytes: this.sizeBytes },
      volume_capabilities: [this.capability],
      parameters: { pool: this.pool.name },
      volume_content_source: this.#origin?.source ?? null,
    });
    assert.equal(volume?.volume_id, this.id);
  }

  /** From now on the volume is made from something, whenever it is made. */
  comesFrom(origin: Origin): void {
    this.#origin = origin;
  }

  async delete(): Promise<void> {
    await this.#client.controller.DeleteVolume({ volume_id: this.id });
    this.forgetData();
  }

  async exists(): Promise<boolean> {
    const { entries } = await this.#client.controller.ListVolumes({});
    return entries.some(({ volume }) => volume?.volume_id === this.id);
  }

  /** Deleted, and not to be brought back. */
  async destroy(): Promise<void> {
    await this.delete();
    if (this.node.circumstances.keepsTrash === true) await this.node.admin.purge(this.id);
  }

  /** Publishes the volume to its node, where that comes before staging. */
  async attach(): Promise<void> {
    if (this.node.circumstances.isAttachRequired !== true) return;
    await this.#client.controller.ControllerPublishVolume({
      volume_id: this.id,
      node_id: nodeId,
      volume_capability: this.capability,
    });
  }

  async detach(): Promise<void> {
    if (this.node.circumstances.isAttachRequired !== true) return;
    await this.#client.controller.ControllerUnpublishVolume({ volume_id: this.id, node_id: nodeId });
  }

  async stats(): Promise<void> {
    await this.#client.node.NodeGetVolumeStats({ volume_id: this.id, volume_path: this.targetPath });
  }

  async modify(mutable_parameters: Record<string, string>): Promise<void> {
    await this.#client.controller.ControllerModifyVolume({ volume_id: this.id, mutable_parameters });
  }

  async stage(): Promise<void> {
    await this.#client.node.NodeStageVolume({
      volume_id: this.id,
      staging_target_path: this.stagingPath,
      volume_capability: this.capability,
    });
  }

  async unstage(): Promise<void> {
    await this.#client.node.NodeUnstageVolume({ volume_id: this.id, staging_target_path: this.stagingPath });
  }

  async publish(readonly = false): Promise<void> {
    await this.#client.node.NodePublishVolume({
      volume_id: this.id,
      staging_target_path: this.stagingPath,
      target_path: this.targetPath,
      volume_capability: this.capability,
      readonly,
    });
  }

  async unpublish(): Promise<void> {
    await this.#client.node.NodeUnpublishVolume({ volume_id: this.id, target_path: this.targetPath });
  }

  /** @returns the size that the volume has then */
  async expandByController(sizeBytes = this.grownBytes): Promise<bigint> {
    const { capacity_bytes } = await this.#client.controller.ControllerExpandVolume({
      volume_id: this.id,
      capacity_range: { required_bytes: sizeBytes },
    });
    return capacity_bytes;
  }

  /** @returns the size that the volume has then */
  async expandOnNode(sizeBytes = this.grownBytes): Promise<bigint> {
    const { capacity_bytes } = await this.#client.node.NodeExpandVolume({
      volume_id: this.id,
      volume_path: this.targetPath,
      staging_target_path: this.stagingPath,
      capacity_range: { required_bytes: sizeBytes },
    });
    return capacity_bytes;
  }

  isStaged(): boolean {
    return mountsBelow(this.stagingPath).length > 0;
  }

  /** Writes through the published volume what must never be lost from then on. */
  async write(): Promise<void> {
    this.checkPublished();
    const data = randomBytes(dataBytes);
    await soon(this.#writeDurably(data), 'the volume takes no writes: has its filesystem been left frozen?');
    this.#checksum = createHash('sha256').update(data).digest('hex');
    this.#usableBytes = await this.#measure();
  }

  /** Asserts that the volume can be seen at its target, and not the directory or file that is made for it. */
  checkPublished(): void {
    assert.equal(mountsBelow(this.targetPath).length, 1, 'nothing, or too much, is mounted at the target');
    const stats = statSync(this.targetPath);
    assert.ok(this.#isBlock ? stats.isBlockDevice() : stats.isDirectory());
  }

  /** Asserts that what was written and fsynced is there; in a volume that nothing was written to, that nothing is. */
  async checkData(): Promise<void> {
    this.checkPublished();
    const { checksum } = this;
    if (checksum === undefined) {
      if (!this.#isBlock) assert.ok(!existsSync(this.#dataPath), 'a new volume has old data in it');
      return;
    }
    const data = Buffer.alloc(dataBytes);
    await using file = await this.#openData('r');
    await file.read(data, 0, dataBytes, this.#dataOffset);
    assert.equal(createHash('sha256').update(data).digest('hex'), checksum, 'fsynced data is not what it was');
  }

  /** Asserts that whoever uses the published volume has the room that it has grown by since the data was written. */
  async checkGrown(): Promise<void> {
    const grownBytes = (await this.#measure()) - this.#usableBytes;
    // A filesystem keeps some of it for itself.
    assert.ok(grownBytes >= (this.grownBytes - this.sizeBytes) / 2n, `only ${grownBytes} bytes were gained`);
  }

  /** Asserts that the published volume takes no writes. */
  async checkReadonly(): Promise<void> {
    await assert.rejects(
      async () => {
        await using file = await this.#openData('w');
        await file.write(Buffer.alloc(4096), 0, 4096, this.#dataOffset);
        await file.sync();
      },
      (error: NodeJS.ErrnoException) => ['EROFS', 'EPERM', 'EACCES', 'EIO'].includes(error.code ?? ''),
    );
  }

  /** Of the data that the volume has. */
  get checksum(): string | undefined {
    return this.#checksum ?? this.#origin?.checksum;
  }

  /** The volume was deleted: what comes next under its name is a new one. */
  forgetData(): void {
    this.#checksum = undefined;
  }

  /** The volume was deleted, but is to come back as it was. */
  rememberData(checksum: string | undefined): void {
    this.#checksum = checksum;
  }

  /** What the image takes on the disk. */
  allocatedBytes(): bigint {
    const { blocks } = statSync(join(this.pool.root, 'volumes', this.id, 'data'), { bigint: true });
    return blocks * 512n;
  }

  /** Where it is, for whoever has to find out what went wrong. */
  describe(): string {
    const mounts = [...mountsBelow(this.stagingPath), ...mountsBelow(this.targetPath)];
    const loops = loopsOver(this.pool.root).filter(({ backingFile }) => backingFile.includes(this.id));
    const { content, id, name } = this;
    return `${name}: ${JSON.stringify({ id, content, loops, mounts })}`;
  }

  get capability(): Draft<wire.VolumeCapability> {
    const { content } = this;
    const fs_type = content.type === 'mount' ? content.fsType : '';
    const access = this.#isBlock ? { block: {} } : { mount: { fs_type } };
    return { ...access, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  }

  get #isBlock(): boolean {
    return this.content.type === 'block';
  }

  get #client(): DriverClient {
    return this.node.client;
  }

  /** The size of the published filesystem or device. */
  async #measure(): Promise<bigint> {
    if (!this.#isBlock) {
      const { blocks, bsize } = await statfs(this.targetPath, { bigint: true });
      return blocks * bsize;
    }
    const { major, minor } = deviceNumber((await stat(this.targetPath, { bigint: true })).rdev);
    const sectors = await readFile(`/sys/dev/block/${major}:${minor}/size`, 'utf8');
    return BigInt(sectors.trim()) * 512n;
  }

  get #dataPath(): string {
    return this.#isBlock ? this.targetPath : join(this.targetPath, 'data');
  }

  get #dataOffset(): number {
    return this.#isBlock ? dataOffset : 0;
  }

  async #writeDurably(data: Uint8Array): Promise<void> {
    {
      await using file = await this.#openData('w');
      await file.write(data, 0, dataBytes, this.#dataOffset);
      await file.sync();
    }
    if (this.#isBlock) return;
    // The file's name as well, not only what is in it.
    await using directory = await open(this.targetPath, 'r');
    await directory.sync();
  }

  #openData(how: 'r' | 'w'): Promise<FileHandle> {
    // A device must not be opened with O_CREAT or O_TRUNC.
    if (this.#isBlock) return open(this.#dataPath, how === 'r' ? 'r' : 'r+');
    return open(this.#dataPath, how);
  }
}
