import type * as wire from '../../../src/csi/generated/types.ts';
import { parseSnapshotId, type SnapshotId } from '../../../src/volume/id.ts';
import type { MovingNode } from '../two-nodes.ts';
import type { Disks } from './disks.ts';
import type { LivingFleet } from './living-fleet.ts';
import { Broken, id, type NodeName, nodeNames, type Place, type PoolName, poolNames } from './place.ts';

/** A snapshot of the volume, as its users know it. */
export interface KnownSnapshot {
  readonly name: string;
  readonly id: SnapshotId;
  /** The version of the volume that it has. */
  readonly version: number;
  state: 'made' | 'deleting' | 'deleted' | 'lost';
  /** A disk came back as it was, or its node was forgotten or its pool out of the configuration as it was deleted: it may be there again. */
  mayComeBack: boolean;
}

/** The world that has them. */
interface Around {
  readonly disks: Disks;
  readonly fleet: LivingFleet;
  readonly nodes: ReadonlyMap<NodeName, MovingNode>;
  readonly configured: ReadonlyMap<NodeName, ReadonlySet<PoolName>>;
  readonly lost: ReadonlySet<string>;
  /** The version that the volume has. */
  readonly expected: number;
}

/** The snapshots of a history. */
export class Snapshots {
  readonly known: KnownSnapshot[] = [];
  readonly #world: Around;
  #count = 0;

  constructor(world: Around) {
    this.#world = world;
  }

  /** Those that must be there. */
  made(): KnownSnapshot[] {
    return this.known.filter(({ state }) => state === 'made');
  }

  /** @throws HoldfastError */
  async take(): Promise<KnownSnapshot> {
    const name = `s${++this.#count}`;
    const request = { source_volume_id: id, name, parameters: {}, secrets: {} };
    const { snapshot } = await this.#world.fleet.call<wire.CreateSnapshotResponse>('CreateSnapshot', request);
    const snapshotId = parseSnapshotId(snapshot?.snapshot_id ?? '');
    if (snapshotId === undefined) throw new Broken(`snapshot ${name} has no id`);
    const known = { name, id: snapshotId, version: this.#world.expected, state: 'made' as const, mayComeBack: false };
    this.known.push(known);
    return known;
  }

  /** @throws HoldfastError */
  async delete(snapshot: KnownSnapshot): Promise<void> {
    // It may be gone, also if the answer is a failure.
    snapshot.state = 'deleting';
    const { configured, fleet } = this.#world;
    const places = this.#placesOf(snapshot);
    await fleet.call('DeleteSnapshot', { snapshot_id: snapshot.id, secrets: {} });
    snapshot.state = 'deleted';
    snapshot.mayComeBack = places.some(
      ({ node, pool }) => fleet.isForgotten(node) || configured.get(node)?.has(pool) !== true,
    );
  }

  /** @throws HoldfastError */
  async look({ id: snapshot_id }: KnownSnapshot): Promise<void> {
    await this.#world.fleet.call('GetSnapshot', { snapshot_id, secrets: {} });
  }

  /** Those that were deleted may be on a disk that is as it was before. */
  comeBack(): void {
    for (const snapshot of this.known) snapshot.mayComeBack = true;
  }

  /**
   * None that was made is lost, none that was deleted can be used, and each has the bytes of its time.
   * @param mayLose a disk was changed
   */
  async require(mayLose: boolean): Promise<void> {
    for (const snapshot of this.made()) {
      if (this.#placesOf(snapshot).length > 0) continue;
      if (!mayLose) throw new Broken(`snapshot ${snapshot.name} is on no disk any more`);
      snapshot.state = 'lost';
    }
    if ((await this.#back()).length === 0) return;
    await this.#world.fleet.told();
    await this.#world.fleet.keep();
    for (const { name, node, pool } of await this.#back()) {
      throw new Broken(`snapshot ${name} was deleted, and is there again in ${node}/${pool}`);
    }
  }

  /** The whole copies on disks that are there. */
  available({ id: snapshotId, version }: KnownSnapshot): Place[] {
    const { configured, disks, fleet, lost } = this.#world;
    return allPlaces().filter(
      ({ node, pool }) =>
        !fleet.isForgotten(node) &&
        configured.get(node)?.has(pool) === true &&
        !lost.has(`${node}/${pool}`) &&
        disks.copiesOn(node, pool, snapshotId).some((copy) => copy.version === version),
    );
  }

  /** The places that have it, whole, also on disks that are away. */
  #placesOf({ id: snapshotId, version }: KnownSnapshot): Place[] {
    const { disks } = this.#world;
    return allPlaces().filter(({ node, pool }) =>
      [...disks.copiesOn(node, pool, snapshotId), ...disks.copiesOut(node, pool, snapshotId)].some(
        (copy) => copy.version === version,
      ),
    );
  }

  /** Those that were deleted, and are listed. @throws Broken one has other bytes than it had */
  async #back(): Promise<(Place & KnownSnapshot)[]> {
    const { disks, fleet, nodes } = this.#world;
    const found: (Place & KnownSnapshot)[] = [];
    for (const [node, { pools }] of nodes) {
      if (fleet.isForgotten(node)) continue;
      for (const pool of pools.all()) {
        for (const record of await pool.listSnapshots(undefined, undefined)) {
          const known = this.known.find((each) => each.id === record.id);
          if (known === undefined) continue;
          const place = { node, pool: pool.name as PoolName };
          const copies = disks.copiesOn(node, place.pool, known.id);
          const copy = copies.find(({ path }) => path.includes(`/snapshots/${known.id}/`));
          if (known.state === 'made' && copy?.version !== known.version) {
            throw new Broken(`snapshot ${known.name} in ${node}/${pool.name} has version ${copy?.version}`);
          }
          if (known.state === 'deleted' && !known.mayComeBack) found.push({ ...known, ...place });
        }
      }
    }
    return found;
  }
}

function allPlaces(): { readonly node: NodeName; readonly pool: PoolName }[] {
  return nodeNames.flatMap((node) => poolNames.map((pool) => ({ node, pool })));
}
