import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { BlockMetadata, GetMetadataDeltaResponse } from '../../src/csi/generated/types.ts';
import { attachDevice } from '../../src/pool/attached-device.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import type { Location } from '../../src/pool/location/location.ts';
import type { VolumeSpec } from '../../src/pool/pool.ts';
import { Pools } from '../../src/pool/pools.ts';
import { snapshotMetadataService } from '../../src/snapshot-metadata/service.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { type SnapshotId, snapshotIdFor, type VolumeId } from '../../src/volume/id.ts';
import type { SnapshotRecord } from '../../src/volume/snapshot-record.ts';
import type { DriverClient } from '../support/client.ts';
import { type ImageTestOptions, openTestPool, volumeSpec } from '../support/image-pool.ts';
import { openPaths } from '../support/open-paths.ts';
import { Scratch } from '../support/scratch.ts';
import { WireServer } from './wire-server.ts';

const run = promisify(execFile);

export const mebibyte = 1 << 20;
/** What XFS allocates and shares. */
export const blockBytes = 4096;

export interface MetadataDriverOptions extends Omit<ImageTestOptions, 'location'> {
  readonly makeLocation?: (scratch: Scratch) => Location;
  /** As in pools that were made before disks of volumes had sectors of 4096 bytes. */
  readonly hasSmallSectors?: boolean;
}

/** A location on XFS with reflink. */
export function backingFile(sizeBytes: bigint): (scratch: Scratch) => Location {
  return (scratch) => ({ type: 'file', path: scratch.join('pool.img'), sizeBytes });
}

/** A directory of the machine's own filesystem, which cannot share blocks. */
export function hostDirectory(scratch: Scratch): Location {
  return { type: 'directory', path: scratch.join('pool') };
}

/** A directory on btrfs, which shares blocks and moves them. */
export function btrfsDirectory(scratch: Scratch): Location {
  const [disk, path] = [scratch.join('disk'), scratch.join('btrfs')];
  writeFileSync(disk, '');
  truncateSync(disk, 2 ** 30);
  execFileSync('mkfs.btrfs', ['-q', disk]);
  mkdirSync(path);
  execFileSync('mount', ['-o', 'loop', disk, path]);
  return { type: 'directory', path };
}

/** SnapshotMetadata on a socket, over a real image pool: in a backing file with XFS, unless the options say otherwise. */
export class MetadataDriver implements AsyncDisposable {
  readonly pool: Catalog;
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  readonly server: WireServer;
  readonly #scratch: Scratch;

  private constructor(scratch: Scratch, pool: Catalog, pools: Pools, objects: ObjectQueue, server: WireServer) {
    this.#scratch = scratch;
    this.pool = pool;
    this.pools = pools;
    this.objects = objects;
    this.server = server;
  }

  static async start(options: MetadataDriverOptions = {}): Promise<MetadataDriver> {
    const scratch = new Scratch('metadata');
    const { makeLocation = backingFile(4n << 30n), hasSmallSectors = false, ...poolOptions } = options;
    const open = { location: makeLocation(scratch), ...poolOptions };
    let pool = await openTestPool(scratch, open);
    if (hasSmallSectors) {
      setSmallSectors(scratch.join('data/pools/test/pool.json'));
      await pool.close();
      pool = await openTestPool(scratch, open);
    }
    const pools = new Pools(new Map([['test', async () => pool]]), 'test');
    await pools.open();
    const objects = new ObjectQueue();
    const server = await WireServer.start({ snapshotMetadata: snapshotMetadataService({ pools, objects }) });
    return new MetadataDriver(scratch, pool, pools, objects, server);
  }

  /** Where the pool's filesystem is mounted. */
  get mountPoint(): string {
    return this.#scratch.mounts().at(-1) ?? this.#scratch.path;
  }

  /** Where the pool keeps what a snapshot holds, below its root. */
  imageOf(id: SnapshotId): string {
    const [image] = readdirSync(this.#scratch.path, { recursive: true, encoding: 'utf8' }).filter((path) =>
      path.endsWith(`snapshots/${id}/data`),
    );
    if (image === undefined) throw new Error(`there is no image of ${id}`);
    return this.#scratch.join(image);
  }

  get client(): DriverClient['snapshotMetadata'] {
    return this.server.client.snapshotMetadata;
  }

  /** A block volume of 64 MiB, attached, or what the changes make of it. */
  async volume(name: string, changes: Partial<VolumeSpec> = {}): Promise<TestDisk> {
    const spec = volumeSpec(name, { content: { type: 'block' }, sizeBytes: 64n << 20n, ...changes });
    const { id } = await this.pool.create(spec);
    return this.disk(id);
  }

  async disk(id: VolumeId): Promise<TestDisk> {
    const attachment = await attachDevice(this.pool, id, { persistent: true });
    await attachment.release();
    const file = await open(attachment.devicePath, 'r+');
    return new TestDisk(id, attachment.devicePath, file, () => this.pool.detach(attachment));
  }

  async cut(name: string, sourceId: VolumeId): Promise<SnapshotRecord> {
    const id = snapshotIdFor('node', name);
    const [record] = await this.pool.takeSnapshots([{ id, name, sourceId, parameters: {} }]);
    if (record === undefined) throw new Error('no snapshot was cut');
    return record;
  }

  /** What is in a snapshot: read from a volume made of it, as a consumer would. */
  async contentOf({ id, sizeBytes }: SnapshotRecord): Promise<Buffer> {
    const spec = volumeSpec(`read ${id}`, { content: { type: 'block' }, sizeBytes });
    const restored = await this.pool.create(spec, { type: 'snapshot', id });
    const disk = await this.disk(restored.id);
    const content = await disk.read();
    await disk.detach();
    await this.pool.remove(restored.id);
    return content;
  }

  /** The whole delta, in one list. */
  async delta(base: SnapshotId, target: SnapshotId, starting_offset = 0n): Promise<BlockMetadata[]> {
    const request = { base_snapshot_id: base, target_snapshot_id: target, starting_offset };
    return rangesIn(await this.client.GetMetadataDelta(request));
  }

  async allocated(snapshot_id: SnapshotId, starting_offset = 0n): Promise<BlockMetadata[]> {
    return rangesIn(await this.client.GetMetadataAllocated({ snapshot_id, starting_offset }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.#scratch;
    await this.server[Symbol.asyncDispose]();
    await this.pools.close();
  }
}

/** An attached block volume, open for its user. */
export class TestDisk {
  readonly id: VolumeId;
  readonly devicePath: string;
  readonly #file: FileHandle;
  readonly #release: () => Promise<void>;

  constructor(id: VolumeId, devicePath: string, file: FileHandle, release: () => Promise<void>) {
    this.id = id;
    this.devicePath = devicePath;
    this.#file = file;
    this.#release = release;
  }

  async write(offset: number, bytes: Buffer): Promise<void> {
    await this.#file.write(bytes, 0, bytes.length, offset);
  }

  /** Tells the device that nobody needs this any more; it reads as zeros. */
  async discard(offset: number, length: number): Promise<void> {
    await this.#file.sync();
    await run('blkdiscard', ['--offset', `${offset}`, '--length', `${length}`, this.devicePath]);
  }

  /** All of it. */
  async read(): Promise<Buffer> {
    const device = await open(this.devicePath, 'r');
    try {
      return await device.readFile();
    } finally {
      await device.close();
    }
  }

  async detach(): Promise<void> {
    await this.#file.close();
    await this.#release();
  }
}

export function rangesIn(messages: readonly Pick<GetMetadataDeltaResponse, 'block_metadata'>[]): BlockMetadata[] {
  return messages.flatMap(({ block_metadata }) => block_metadata);
}

/** `before` with these ranges copied from `after`: what a consumer of a delta makes. */
export function rebuilt(before: Buffer, after: Buffer, ranges: readonly BlockMetadata[]): Buffer {
  const result = Buffer.alloc(after.length);
  before.copy(result);
  for (const { byte_offset, size_bytes } of ranges) {
    const [start, end] = [Number(byte_offset), Number(byte_offset + size_bytes)];
    after.copy(result, start, start, end);
  }
  return result;
}

export async function writeBlocks(disk: TestDisk, ...blocks: readonly number[]): Promise<void> {
  for (const each of blocks) await disk.write(each * blockBytes, Buffer.alloc(blockBytes, 1 + (each % 255)));
}

export const everyOther = (count: number) => Array.from({ length: count }, (_, index) => index * 2);

/** How many images of snapshots this process has open. */
export function openImages(): number {
  return openPaths().filter((path) => /\/(snapshots|trash)\/snap-[^/]+\/data/.test(path)).length;
}

function setSmallSectors(poolFile: string): void {
  const text = readFileSync(poolFile, 'utf8');
  const changed = text.replace(/("blockSizeBytes": *)\d+/, '$1512');
  if (!changed.includes('512')) throw new Error(`${poolFile}: ${text}`);
  writeFileSync(poolFile, changed);
}
