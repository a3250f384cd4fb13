import { setTimeout as delay } from 'node:timers/promises';
import { volumeIdFor } from '../../../src/volume/id.ts';
import type { SeededRandom } from '../../crash/seeded-random.ts';
import { type GuestNode, nodeId } from '../node/guest-node.ts';
import { GuestVolume } from '../node/guest-volume.ts';
import { holds, keeps, type Sight, type SnapshotFact } from './facts.ts';
import { insist } from './insist.ts';
import type { PowerScene } from './scene.ts';
import { checkFiles, User } from './user.ts';

/** What was done to the node, and looked at after it. */
export interface Tally {
  cuts: number;
  /** Calls and writes that had an answer before a cut, each of which was checked after it. */
  acknowledged: number;
  files: number;
  bytes: number;
  /** Volumes that were mounted again and looked through. */
  volumes: number;
  /** Snapshots that a volume was made from, to be compared with the cut. */
  snapshots: number;
  /** What the disks had taken and not made durable when the power went. */
  lostSectors: number;
  keptSectors: number;
}

const fewestDeeds = 4;
const mostDeeds = 40;
const mostDelayMs = 400;
/** So often the power goes while the driver starts. */
const duringStartProbability = 0.15;

/** Cuts the power of a node again and again, under load, and looks after each boot whether all that must be there is. */
export class PowerRun {
  readonly tally: Tally = {
    cuts: 0,
    acknowledged: 0,
    files: 0,
    bytes: 0,
    volumes: 0,
    snapshots: 0,
    lostSectors: 0,
    keptSectors: 0,
  };
  readonly #node: GuestNode;
  readonly #random: SeededRandom;
  readonly #users: readonly User[];
  readonly #scene: PowerScene;
  #startMs = 1000;

  constructor(node: GuestNode, random: SeededRandom, scene: PowerScene) {
    this.#node = node;
    this.#random = random;
    this.#scene = scene;
    this.#users = scene.users.map((options, i) => new User(node, `user-${i}`, { random: random.fork(), ...options }));
  }

  /** One time: load, cut, boot, and a look at everything. @returns a line about it */
  async once(): Promise<string> {
    const { tally } = this;
    const startedMs = performance.now();
    const acknowledged = await this.#workUntilCut();
    const cutMs = performance.now();
    await this.#boot();
    if (this.#random.chance(duringStartProbability)) await this.#cutDuringStart();
    const bootedMs = performance.now();
    await keeps('the start of the driver', () => this.#node.start());
    this.#startMs = performance.now() - bootedMs;
    const checked = await this.check();
    tally.acknowledged += acknowledged;
    const seconds = [cutMs - startedMs, bootedMs - cutMs, performance.now() - bootedMs].map((ms) =>
      (ms / 1000).toFixed(0),
    );
    return `cut ${tally.cuts}: ${acknowledged} acknowledged, ${checked}; ${seconds[0]} s load, ${seconds[1]} s boot, ${seconds[2]} s check`;
  }

  /** Looks at everything that was ever acknowledged, and takes it into use again. @returns what that was */
  async check(options: { readonly allSnapshots?: boolean } = {}): Promise<string> {
    const sight = await this.#scene.look(this.#node);
    for (const user of this.#users) await user.settle(sight);
    this.#checkNoneTooMany(sight);
    const volumes = this.#users.filter(({ volume }) => volume !== undefined);
    const read = await keeps('taking the volumes into use', () =>
      Promise.all(this.#users.map((user) => user.resume())),
    );
    const known = this.#users.flatMap((user) => [...user.snapshots.values()]);
    const chosen = options.allSnapshots === true || known.length === 0 ? known : [this.#random.pick(known)];
    for (const snapshot of chosen) {
      read.push(await keeps(`restoring ${snapshot.name}`, () => this.#checkSnapshot(snapshot)));
    }
    const files = read.reduce((sum, each) => sum + each.files, 0);
    const bytes = read.reduce((sum, each) => sum + each.bytes, 0);
    this.tally.files += files;
    this.tally.bytes += bytes;
    this.tally.volumes += volumes.length;
    this.tally.snapshots += chosen.length;
    return `${volumes.length} volumes, ${known.length} snapshots, ${files} files, ${(bytes / 2 ** 20).toFixed(1)} MiB`;
  }

  /** Everything out of use. */
  async leave(): Promise<void> {
    for (const { volume } of this.#users) {
      if (volume !== undefined) await insist(`${volume.name}: leave`, () => volume.leave());
    }
  }

  async #workUntilCut(): Promise<number> {
    const cut = new AbortController();
    let left = fewestDeeds + this.#random.below(mostDeeds - fewestDeeds);
    let acknowledged = 0;
    let reached: () => void = () => undefined;
    const enough = new Promise<void>((resolve) => {
      reached = resolve;
    });
    const count = () => {
      acknowledged++;
      if (left-- <= 0) reached();
    };
    const work = Promise.all(this.#users.map((user) => user.work(cut.signal, count)));
    // What fails before the cut is a failure of the test.
    await Promise.race([enough, work]);
    await delay(this.#random.below(mostDelayMs));
    cut.abort();
    await this.#cut();
    await work;
    return acknowledged;
  }

  async #cutDuringStart(): Promise<void> {
    this.#node.spawn();
    await delay(this.#random.below(this.#startMs));
    await this.#cut();
    await this.#boot();
  }

  async #boot(): Promise<void> {
    await this.#node.vm.boot();
    await this.#node.mount();
    await this.#node.vm.run(this.#scene.afterBoot);
  }

  async #cut(): Promise<void> {
    const losses = await this.#node.vm.cutPower(this.#random);
    this.#node.forget();
    this.tally.cuts++;
    for (const { keptSectors, lostSectors } of losses) {
      this.tally.lostSectors += lostSectors;
      this.tally.keptSectors += keptSectors;
    }
  }

  #checkNoneTooMany({ snapshots, volumes }: Sight): void {
    const known = new Set(this.#users.map(({ volume }) => volume?.id));
    const knownSnapshots = new Set(this.#users.flatMap((user) => [...user.snapshots.values()].map(({ id }) => id)));
    for (const id of volumes.keys()) holds(known.has(id), `${id} was deleted, or never made, and is there`);
    for (const id of snapshots) holds(knownSnapshots.has(id), `${id} was deleted, or never made, and is there`);
    for (const id of knownSnapshots) holds(snapshots.has(id), `${id} was acknowledged and is gone`);
  }

  /** A snapshot equals its cut: seen through a volume made from it. */
  async #checkSnapshot(snapshot: SnapshotFact): Promise<{ readonly files: number; readonly bytes: number }> {
    const { content, files, id, name, pool, sizeBytes } = snapshot;
    const copyName = `${name}-copy`;
    const copy = new GuestVolume(this.#node, volumeIdFor(nodeId, pool, copyName), { name: copyName, content, pool });
    await insist(`${copyName}: create`, () => copy.create(sizeBytes, id));
    await insist(`${copyName}: use`, () => copy.use());
    const read = await checkFiles(this.#node, files, copy.targetPath, name);
    await insist(`${copyName}: leave`, () => copy.leave());
    await insist(`${copyName}: delete`, () => copy.delete());
    return read;
  }
}
