import {
  chunkOf,
  parseThinNode,
  parseThinSuperblock,
  type ThinNode,
  type ThinSuperblock,
} from '../../../../../kernel/block/thin-metadata.ts';
import type { Extent, ExtentPage } from '../../../../../kernel/file/fiemap.ts';
import { DataLoss } from '../../../../../volume/errors.ts';
import { smaller } from '../../../../../volume/size.ts';

/** Reads a block of a thin pool's metadata. */
export type ReadBlock = (block: bigint) => Promise<Buffer>;

/** A node on the way from a root down to the leaf that has a key, or would have it. */
interface Step {
  readonly block: bigint;
  readonly node: ThinNode;
  /** The first key that is no longer below it; undefined: it goes on to the end. */
  readonly endKey: bigint | undefined;
}

/** Inner nodes, and the leaves of simultaneous readers: some 2 MiB. */
const nodesKept = 128;
/** More than any tree of a thin pool has, even with the fewest entries in each node. */
const deepest = 20;

/** The maps of thin devices in metadata that does not change meanwhile. Reads on demand, and keeps little of it. */
export class MappingTrees {
  readonly chunkBytes: bigint;
  readonly #rootBlock: bigint;
  readonly #poolName: string;
  readonly #read: ReadBlock;
  /** The one used last comes last. */
  readonly #nodes = new Map<bigint, ThinNode>();

  private constructor(poolName: string, { chunkBytes, rootBlock }: ThinSuperblock, read: ReadBlock) {
    this.#poolName = poolName;
    this.chunkBytes = chunkBytes;
    this.#rootBlock = rootBlock;
    this.#read = read;
  }

  /** @param superblock where it lies @throws DataLoss */
  static async open(poolName: string, read: ReadBlock, superblock: bigint): Promise<MappingTrees> {
    const parsed = parseThinSuperblock(await read(superblock), superblock);
    if (parsed === undefined) throw damaged(poolName, superblock);
    return new MappingTrees(poolName, parsed, read);
  }

  /** The root of a thin device's map; undefined: there is no such device. */
  async rootOf(deviceId: bigint): Promise<bigint | undefined> {
    const leaf = (await this.#descend(this.#rootBlock, deviceId)).at(-1);
    const index = leaf?.node.keys.indexOf(deviceId) ?? -1;
    return leaf?.node.values[index];
  }

  /** The extents of a device from an offset on, as far as one leaf of its map goes. */
  async page(root: bigint, fromBytes: bigint, toBytes: bigint): Promise<ExtentPage> {
    const key = fromBytes / this.chunkBytes;
    const leaf = (await this.#descend(root, key)).at(-1);
    if (leaf === undefined) return { extents: [], untilBytes: toBytes };
    return { extents: this.#extentsOf(leaf.node, key), untilBytes: this.#until(leaf.endKey, toBytes) };
  }

  /**
   * Until where two devices have the same from an offset on, because they share a part of their maps there.
   * @returns undefined if they share none there
   */
  async sharedUntil(roots: readonly [bigint, bigint], fromBytes: bigint, toBytes: bigint): Promise<bigint | undefined> {
    const key = fromBytes / this.chunkBytes;
    const [one, other] = [await this.#descend(roots[0], key), await this.#descend(roots[1], key)];
    for (const { block, endKey } of one) {
      const same = other.find((step) => step.block === block);
      if (same === undefined) continue;
      return smaller(this.#until(endKey, toBytes), this.#until(same.endKey, toBytes));
    }
    return undefined;
  }

  #until(endKey: bigint | undefined, toBytes: bigint): bigint {
    return endKey === undefined ? toBytes : smaller(endKey * this.chunkBytes, toBytes);
  }

  /** Chunks that follow each other in the device and in the pool are one extent. */
  #extentsOf({ keys, values }: ThinNode, fromKey: bigint): Extent[] {
    const { chunkBytes } = this;
    const extents: Extent[] = [];
    for (const [index, key] of keys.entries()) {
      const value = values[index];
      if (key < fromKey || value === undefined) continue;
      const [offsetBytes, physicalBytes] = [key * chunkBytes, chunkOf(value) * chunkBytes];
      const last = extents.at(-1);
      if (last !== undefined && follows(last, offsetBytes, physicalBytes)) {
        extents[extents.length - 1] = { ...last, lengthBytes: last.lengthBytes + chunkBytes };
      } else {
        extents.push({ offsetBytes, lengthBytes: chunkBytes, isWritten: true, physicalBytes });
      }
    }
    return extents;
  }

  async #descend(root: bigint, key: bigint): Promise<Step[]> {
    const steps: Step[] = [];
    let block = root;
    let endKey: bigint | undefined;
    while (steps.length < deepest) {
      const node = await this.#node(block);
      steps.push({ block, node, endKey });
      if (node.isLeaf) return steps;
      const after = node.keys.findIndex((each) => each > key);
      // Below the first key there is nothing: the first child tells that, too.
      const index = after === -1 ? node.keys.length - 1 : Math.max(0, after - 1);
      const child = node.values[index];
      if (child === undefined) break;
      endKey = node.keys[index + 1] ?? endKey;
      block = child;
    }
    throw damaged(this.#poolName, block);
  }

  async #node(block: bigint): Promise<ThinNode> {
    const known = this.#nodes.get(block);
    this.#nodes.delete(block);
    const node = known ?? parseThinNode(await this.#read(block), block);
    if (node === undefined) throw damaged(this.#poolName, block);
    this.#nodes.set(block, node);
    for (const oldest of this.#nodes.keys()) {
      if (this.#nodes.size <= nodesKept) break;
      this.#nodes.delete(oldest);
    }
    return node;
  }
}

function follows({ lengthBytes, offsetBytes, physicalBytes }: Extent, nextBytes: bigint, placeBytes: bigint): boolean {
  return offsetBytes + lengthBytes === nextBytes && (physicalBytes ?? -1n) + lengthBytes === placeBytes;
}

function damaged(poolName: string, block: bigint): DataLoss {
  return new DataLoss(
    `pool ${poolName}: block ${block} of its thin pool's metadata cannot be read as what it should be: see lvmthin(7), "Metadata check and repair".`,
  );
}
