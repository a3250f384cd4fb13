import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { patiently } from '../../../src/move/source.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { HoldfastError, Unavailable } from '../../../src/volume/errors.ts';
import type { VolumeId } from '../../../src/volume/id.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import type { Scratch } from '../../support/scratch.ts';
import { SmallDisk } from '../../support/small-disk.ts';
import { write } from '../devices.ts';
import { Broker, MovingNode } from '../two-nodes.ts';
import { movesOf, refuseVolumes } from '../two-pools.ts';
import { Disks, type SeenCopy, stampOf, stampPlaces, versionIn, volumeBytes } from './disks.ts';
import { LivingFleet } from './living-fleet.ts';
import { Broken, id, type NodeName, nodeNames, type Place, type PoolName, poolNames } from './place.ts';
import { Snapshots } from './snapshots.ts';

export interface WorldOptions {
  /** The disks share blocks: the volume has snapshots that follow it, and is copied while a pod uses it. */
  readonly sharesBlocks: boolean;
}

const spec = volumeSpec('history', { id, content: { type: 'block' }, sizeBytes: BigInt(volumeBytes) });

/** A copy that a pod could use. */
export interface Usable extends Place {
  readonly version: number;
  readonly generation: number;
}

interface Pod extends Place {
  readonly devicePath: string;
  /** The device, which a pod holds open. */
  readonly file: number;
  detach: () => Promise<void>;
}

/** Three nodes with two pools each, a controller, one volume, at most one pod, and what their operator knows. */
export class World implements AsyncDisposable {
  readonly disks: Disks;
  readonly fleet: LivingFleet;
  readonly nodes = new Map<NodeName, MovingNode>();
  /** The pools in the configuration of each node. */
  readonly configured = new Map<NodeName, Set<PoolName>>();
  /** Disks as they were. */
  readonly saved: (Place & { readonly name: string })[] = [];
  /** Disks that an operator takes for lost. */
  readonly lost = new Set<string>();
  /** The nodes whose notes were lost, and those that have had a disk as it was before. */
  readonly noteless = new Set<NodeName>();
  readonly putBack = new Set<NodeName>();
  pod: Pod | undefined;
  /** The version that was written last. */
  written = 0;
  /** The version that the volume has, as its users know. */
  expected = 0;
  /** The two ends of the move that a story is about. */
  ends: readonly [from: Place, to: Place] | undefined;
  /** Its users have deleted it: only a restore brings it back. */
  isDeleted = false;
  /** A disk that was away then, or is as it was before, may have it still. */
  mayComeBack = false;
  readonly snapshots: Snapshots;
  readonly #options: WorldOptions;
  readonly #place: Pick<Scratch, 'join' | 'path'>;
  readonly #broker = new Broker();
  readonly #staged = new Map<NodeName, VolumeId[]>(nodeNames.map((name) => [name, []]));

  private constructor(place: Pick<Scratch, 'join' | 'path'>, fleet: LivingFleet, options: WorldOptions) {
    this.#place = place;
    this.#options = options;
    this.disks = new Disks(place.path);
    this.fleet = fleet;
    this.snapshots = new Snapshots(this);
    for (const name of nodeNames) this.configured.set(name, new Set(poolNames));
  }

  static async start(scratch: Scratch, options: WorldOptions = { sharesBlocks: false }): Promise<World> {
    const fleet = await LivingFleet.start(scratch, nodeNames);
    const world = new World(options.sharesBlocks ? sharingPlace(scratch) : scratch, fleet, options);
    for (const name of nodeNames) await world.up(name);
    await world.node('a').pools.get('data').create(spec);
    world.fleet.double.known.volumes.set(id, 'a');
    await world.fleet.told();
    await world.startPod();
    world.writePod();
    await world.stopPod();
    return world;
  }

  get sharesBlocks(): boolean {
    return this.#options.sharesBlocks;
  }

  node(name: NodeName): MovingNode {
    return this.nodes.get(name) ?? assert.fail(`node ${name} is away`);
  }

  isConfigured({ node, pool }: Place): boolean {
    return this.configured.get(node)?.has(pool) === true;
  }

  /** The node that the PersistentVolume names. */
  get recorded(): string | undefined {
    return this.fleet.double.known.volumes.get(id);
  }

  /** Its users delete the volume, and its PersistentVolume. @throws HoldfastError: it may be gone anyway */
  async delete(): Promise<void> {
    const isUnseen = ({ node, pool, path }: SeenCopy) =>
      !path.includes('/trash/') &&
      (!this.nodes.has(node as NodeName) ||
        !this.isConfigured({ node, pool } as Place) ||
        this.fleet.isForgotten(node));
    this.mayComeBack = this.everywhere().some(isUnseen);
    const recorded = this.recorded;
    // The notes go with the volume: no node can tell an old disk from the one that it had last.
    for (const name of nodeNames) this.noteless.add(name);
    try {
      await this.fleet.call('DeleteVolume', { volume_id: id, secrets: {} });
      this.isDeleted = true;
      this.fleet.double.known.volumes.delete(id);
    } catch (error) {
      this.isDeleted = (await this.usable()).length === 0;
      this.mayComeBack = true;
      if (recorded !== undefined && this.isDeleted) this.fleet.double.known.volumes.set(id, recorded);
      throw error;
    }
  }

  record(node: NodeName): void {
    this.fleet.double.known.volumes.set(id, node);
  }

  async up(name: NodeName): Promise<void> {
    const poolNamesHere = [...(this.configured.get(name) ?? [])];
    const staged = this.#staged.get(name) ?? [];
    const node = await MovingNode.open(this.#place, this.#broker, name, {
      ...{ poolNames: poolNamesHere, staged, nodeName: name },
      movesSnapshots: this.#options.sharesBlocks,
    });
    this.nodes.set(name, node);
    await this.fleet.link(node);
    await this.fleet.told();
  }

  async down(name: NodeName): Promise<void> {
    if (this.pod?.node === name) await this.stopPod();
    this.fleet.cut(name);
    const node = this.nodes.get(name);
    this.nodes.delete(name);
    await node?.[Symbol.asyncDispose]();
  }

  /** Something changes about a node while its driver does not run; it runs again then, if it did before. */
  async whileDown(name: NodeName, change: () => void): Promise<void> {
    const isThere = this.nodes.has(name);
    if (isThere) await this.down(name);
    change();
    if (isThere) await this.up(name);
  }

  /** The driver of the pod's node stops and starts again, and the pod writes on. */
  async restartUnderPod(change: () => void): Promise<void> {
    const { pod } = this;
    if (pod === undefined) return;
    const node = this.node(pod.node);
    this.fleet.cut(pod.node);
    this.nodes.delete(pod.node);
    await node[Symbol.asyncDispose]();
    // Its pool may be no pool of the node any more. The kernel may have detached the device as the pod closed it.
    pod.detach = async () => void spawnSync('losetup', ['--detach', pod.devicePath]);
    change();
    await this.up(pod.node);
  }

  /** A pod starts where the volume can be used. @returns undefined if it cannot be, anywhere */
  async startPod(): Promise<Pod | undefined> {
    for (const [name, node] of this.nodes) {
      if (this.fleet.isForgotten(name)) continue;
      try {
        const { devicePath, ...pod } = await node.objects.claim([{ object: id }], 'NodeStageVolume', () =>
          this.#attach(node),
        );
        this.#staged.get(name)?.push(id);
        this.pod = { node: name, devicePath, ...pod };
        const version = versionIn(devicePath);
        if (this.written > 0 && version !== this.expected) {
          throw new Broken(`a pod on node ${name} sees version ${version}, not ${this.expected}`);
        }
        return this.pod;
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
      }
    }
    return undefined;
  }

  /** The caller has claimed the volume. */
  async #attach({ objects, pools }: MovingNode): Promise<Omit<Pod, 'node'>> {
    const { pool } = await pools.require(id);
    const attached = await pool.attach(id, { persistent: true });
    assert.ok(attached.kind === 'device');
    await attached.release();
    const turn = { objects, signal: new AbortController().signal };
    const { devicePath } = attached;
    const file = openSync(devicePath, 'r');
    return { pool: placeOf(pool), devicePath, file, detach: () => patiently(turn, [id], () => pool.detach(attached)) };
  }

  /** The pod writes the next version, durably. */
  writePod(): void {
    const { devicePath } = this.pod ?? assert.fail('there is no pod');
    const version = ++this.written;
    for (const place of stampPlaces) write(devicePath, stampOf(version), BigInt(place));
    this.expected = version;
  }

  async stopPod(): Promise<void> {
    const { pod } = this;
    if (pod === undefined) return;
    this.pod = undefined;
    this.#staged.get(pod.node)?.splice(0);
    closeSync(pod.file);
    await pod.detach();
  }

  /** The pool of a node commits nothing, until its driver starts again. */
  refuseCommits({ node, pool }: Place): void {
    const here = this.nodes
      .get(node)
      ?.pools.all()
      .find(({ name }) => name === pool);
    if (here !== undefined) refuseVolumes(here);
  }

  /** A pool does not hear that its volume has arrived elsewhere, until its driver starts again. */
  refuseSettling({ node, pool }: Place): void {
    const here = this.nodes
      .get(node)
      ?.pools.all()
      .find(({ name }) => name === pool);
    if (here === undefined) return;
    const moves = movesOf(here);
    mock.method(moves, 'settle', async () => {
      throw new Unavailable(`pool ${pool} does not answer.`);
    });
  }

  /** A pool hands no volume over: its fence stands until its driver starts again. */
  refuseGiving({ node, pool }: Place): void {
    const here = this.nodes
      .get(node)
      ?.pools.all()
      .find(({ name }) => name === pool);
    if (here === undefined) return;
    mock.method(movesOf(here), 'give', async () => {
      throw new Unavailable(`pool ${pool} does not answer.`);
    });
  }

  /** The copies that pods could use now, on nodes that get pods. */
  async usable(): Promise<Usable[]> {
    const found: Usable[] = [];
    for (const [name, { pools }] of this.nodes) {
      if (this.fleet.isForgotten(name)) continue;
      for (const pool of pools.all()) {
        if ((await pool.find(id)) === undefined) continue;
        const { mark, why } = await movesOf(pool).stateOf(id);
        if (why !== undefined) continue;
        const place = { node: name, pool: placeOf(pool) };
        const path = this.disks.copiesOn(name, place.pool, id).find((copy) => copy.path.includes(`/volumes/${id}/`));
        found.push({ ...place, version: path?.version ?? 0, generation: mark.generation });
      }
    }
    return found;
  }

  /** True if the volume is there, whether it can be used or waits for the end of a move. */
  async isValid({ node, pool }: Place): Promise<boolean> {
    const here = this.nodes
      .get(node)
      ?.pools.all()
      .find(({ name }) => name === pool);
    if (here === undefined || (await here.find(id)) === undefined) return false;
    const { why } = await movesOf(here).stateOf(id);
    return why === undefined || why === 'closed';
  }

  /** The places that have something of the volume, or to which it moves. */
  hot(): Place[] {
    const places = nodeNames.flatMap((node) => poolNames.map((pool) => ({ node, pool })));
    const coming = new Set(
      [...this.nodes].flatMap(([name, { mover }]) => mover.sights().flatMap(({ job }) => `${name}/${job.to}`)),
    );
    return places.filter(
      ({ node, pool }) => coming.has(`${node}/${pool}`) || this.disks.copiesOn(node, pool, id).length > 0,
    );
  }

  /** The whole copies on disks that are there, whatever state they are in. */
  available(): SeenCopy[] {
    return [...this.nodes.keys()]
      .filter((name) => !this.fleet.isForgotten(name))
      .flatMap((node) =>
        [...(this.configured.get(node) ?? [])].flatMap((pool) =>
          this.lost.has(`${node}/${pool}`) ? [] : this.disks.copiesOn(node, pool, id),
        ),
      );
  }

  /** The whole copies on all disks, also on those that are away. */
  everywhere(): SeenCopy[] {
    return nodeNames.flatMap((node) =>
      poolNames.flatMap((pool) => [...this.disks.copiesOn(node, pool, id), ...this.disks.copiesOut(node, pool, id)]),
    );
  }

  /** Waits until no move of a node that is there runs, or for so long. */
  async rest(limitMs: number): Promise<void> {
    const endsAt = performance.now() + limitMs;
    while (performance.now() < endsAt && this.isMoving()) await delay(10);
  }

  isMoving(): boolean {
    return [...this.nodes.values()].some(({ mover }) => mover.sights().some(({ job }) => job.state === 'running'));
  }

  /** For messages. */
  async describe(): Promise<string> {
    const lines: string[] = [
      `expected ${this.expected}, recorded on ${this.recorded}, lost ${[...this.lost].join(' ')}`,
    ];
    for (const name of nodeNames) {
      const node = this.nodes.get(name);
      const what = this.fleet.isForgotten(name) ? 'forgotten' : node === undefined ? 'away' : 'there';
      lines.push(`node ${name} ${what} ${[...(this.configured.get(name) ?? [])].join(',')}`);
      for (const { job, snapshots, trouble } of node?.mover.sights() ?? []) {
        lines.push(
          `  move ${job.node ?? ''}${job.node ? ' ' : ''}${job.from} -> ${job.to} ${job.state} ${job.reason ?? trouble ?? ''}`,
          `    snapshots ${snapshots?.job.state} ${snapshots?.job.reason ?? snapshots?.trouble ?? ''}`,
        );
      }
      for (const pool of node?.pools.all() ?? []) {
        const moves = movesOf(pool);
        const noted = await moves.noted(id);
        const state = (await pool.find(id)) && (await moves.stateOf(id));
        const trashed = await moves.trashedMark(id);
        lines.push(
          `  pool ${pool.name} noted ${noted.generation}${noted.at ? ` at ${noted.at}` : ''} here ${JSON.stringify(state)} trash ${JSON.stringify(trashed)} draft ${await moves.comingNote(id)}`,
        );
      }
      for (const pool of poolNames) {
        for (const { path, version } of [
          ...this.disks.copiesOn(name, pool, id),
          ...this.disks.copiesOut(name, pool, id),
        ]) {
          lines.push(`  version ${version} in ${path.slice(this.#place.path.length)}`);
        }
      }
    }
    for (const snapshot of this.snapshots.known) {
      const places = this.snapshots.available(snapshot).map(({ node, pool }) => `${node}/${pool}`);
      lines.push(`snapshot ${snapshot.name} version ${snapshot.version} ${snapshot.state} ${places.join(' ')}`);
    }
    return lines.join('\n');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopPod().catch(() => undefined);
    for (const name of nodeNames) await this.down(name);
    await this.fleet[Symbol.asyncDispose]();
  }
}

/** An XFS for all disks. */
function sharingPlace(scratch: Scratch): Pick<Scratch, 'join' | 'path'> {
  const { directory } = new SmallDisk(scratch, 'disks');
  return { path: directory, join: (...parts) => join(directory, ...parts) };
}

function placeOf({ name }: Pick<Pool, 'name'>): PoolName {
  return poolNames.find((each) => each === name) ?? assert.fail(name);
}

/** The words of a refusal. */
export function refusalOf(error: unknown): string {
  if (error instanceof HoldfastError) return `${error.code} ${error.message}`;
  throw error;
}
