import type { Descriptor } from '../kernel/call/descriptor.ts';
import { HoldfastError, InvalidArgument, NotFound } from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import type { VolumeHandle } from '../volume/handle.ts';
import { parseVolumeId, type VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import type { Secrets } from '../volume/secrets.ts';
import { abnormal, askCondition, type PoolCondition } from './condition.ts';
import type {
  FoundOnNode,
  OwnedOnNode,
  SeenAt,
  VolumeAccess,
  VolumeContext,
  VolumeOnNode,
  VolumeSource,
} from './node-side.ts';
import type { Attached, AttachOptions, Condition, Pool, TrimOptions } from './pool.ts';
import type { Pools } from './pools.ts';

/** A volume of a pool of this node. */
export class PoolVolume implements VolumeAccess {
  readonly handle: VolumeId;
  readonly #pool: Pool;

  constructor(pool: Pool, id: VolumeId) {
    this.#pool = pool;
    this.handle = id;
  }

  get poolName() {
    return this.#pool.name;
  }

  get queue() {
    return this.#pool.queue;
  }

  get traits() {
    return this.#pool.traits;
  }

  get trimming() {
    return this.#pool.trimming;
  }

  attach(options: AttachOptions) {
    return this.#pool.attach(this.handle, options);
  }

  attached() {
    return this.#pool.attached(this.handle);
  }

  detach(attached: Attached) {
    return this.#pool.detach(attached);
  }

  endUnseenFreeze() {
    return this.#pool.endUnseenFreeze(this.handle);
  }

  settleFilesystem(directory: Descriptor) {
    return this.#pool.settleFilesystem(this.handle, directory);
  }

  repair(fsType: FilesystemType, secrets?: Secrets) {
    return this.#pool.repair(this.handle, fsType, secrets);
  }

  async grow(sizeBytes: bigint) {
    return (await this.#pool.grow(this.handle, sizeBytes)).sizeBytes;
  }

  trim(options: TrimOptions) {
    return this.#pool.trim(this.handle, options);
  }

  quotaUsage() {
    return this.#pool.quotaUsage(this.handle);
  }
}

/** A volume as its record has it. */
function recordedVolume(record: VolumeRecord): VolumeOnNode {
  const { accessModes, content, encryption, id, provisioning, publication, sizeBytes } = record;
  return { handle: id, accessModes, content, encryption, provisioning, publication, sizeBytes, context: {} };
}

/** The volumes of this node's pools: what they are is in the pools' records. */
export class RecordedVolumes implements VolumeSource {
  readonly #pools: Pools;

  constructor(pools: Pools) {
    this.#pools = pools;
  }

  /** The context of our volumes is empty, so any key belongs to another volume. */
  async require(handle: VolumeHandle, context: VolumeContext): Promise<FoundOnNode> {
    const id = requireId(handle);
    const [foreign] = Object.keys(context);
    if (foreign !== undefined) {
      throw new InvalidArgument(
        `volume_context has the key ${JSON.stringify(foreign)}, which no volume of this driver has.`,
      );
    }
    return this.requireKnown(id);
  }

  async requireKnown(handle: VolumeHandle): Promise<FoundOnNode> {
    const { pool, record } = await this.#pools.require(requireId(handle));
    return { access: new PoolVolume(pool, record.id), volume: recordedVolume(record) };
  }

  async findIfPossible(handle: VolumeHandle): Promise<FoundOnNode | undefined> {
    try {
      return await this.requireKnown(handle);
    } catch (error) {
      if (error instanceof HoldfastError) return undefined;
      throw error;
    }
  }

  async ownerOf(seen: SeenAt): Promise<OwnedOnNode | undefined> {
    const owned = await this.#pools.volumeSeen(seen);
    if (owned === undefined) return undefined;
    const { id, isWhole, pool } = owned;
    return { handle: id, isWhole, access: pool === undefined ? undefined : new PoolVolume(pool, id) };
  }

  /** The records tell what a volume is. */
  async hold() {}

  async letGo() {}

  /** No two volumes of ours are the same data. */
  isOfAnother(): boolean {
    return false;
  }

  /** The pool's current state counts: it may have been found to be sick meanwhile. */
  async conditionOf({ access, handle }: OwnedOnNode): Promise<PoolCondition> {
    const id = parseVolumeId(handle);
    const current = access && this.#pools.known().find(({ name }) => name === access.poolName);
    if (current === undefined || id === undefined) return { condition: poolClosed, isSick: false };
    return await askCondition(current, id);
  }
}

const poolClosed: Condition = abnormal('The pool of this volume could not be opened.');

/** @throws NotFound for what cannot be an id of ours: it gets no further than this */
function requireId(handle: VolumeHandle): VolumeId {
  const id = parseVolumeId(handle);
  if (id === undefined) throw new NotFound(`There is no volume ${JSON.stringify(handle)} on this node.`);
  return id;
}
