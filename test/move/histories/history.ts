import { HoldfastError } from '../../../src/volume/errors.ts';
import { Random } from '../../support/random.ts';
import { Scratch } from '../../support/scratch.ts';
import { eventsOf, type Happening, type LostByWord } from './events.ts';
import { Broken, id, type NodeName, nodeNames, poolNames } from './place.ts';
import { World } from './world.ts';

/** Looks if the promises hold after an event. */
class Witness {
  readonly #world: World;
  #best = 0;
  /** The volume may be an earlier copy, as an operator has said so, or a disk is an old one. */
  #isExcused = false;
  /** The nodes and pools that an operator has named as lost since the volume was written last. */
  readonly #named = new Set<string>();
  #written = 0;

  constructor(world: World) {
    this.#world = world;
  }

  before(): void {
    this.#best = latest(this.#world.everywhere());
  }

  async after({ lost, mayLose, restores = false }: Happening): Promise<void> {
    const world = this.#world;
    if (world.written > this.#written) this.#named.clear();
    this.#written = world.written;
    for (const name of [lost?.lostNode, lost?.lostPool]) if (name !== undefined) this.#named.add(name);
    const best = latest(world.everywhere());
    // A later one, of which an old disk knows nothing, may be a mere copy on its way.
    if (mayLose === undefined && !world.isDeleted && best < Math.min(this.#best, world.expected)) {
      throw new Broken(`version ${this.#best} is on no disk any more`);
    }
    if (mayLose === 'regress') this.#isExcused = true;
    await world.snapshots.require(mayLose !== undefined);
    const usable = await this.#one();
    if (usable === undefined) return;
    const { pod } = world;
    if (pod !== undefined && (pod.node !== usable.node || pod.pool !== usable.pool)) {
      throw new Broken(`a pod uses ${pod.node}/${pod.pool}, and the volume is ${usable.node}/${usable.pool}`);
    }
    if (world.isDeleted) this.#isBack(restores);
    if (usable.version === world.expected) return;
    if (usable.version > world.expected || this.#isExcused) {
      world.expected = usable.version;
      this.#isExcused = false;
      return;
    }
    const there = latest(world.available());
    if (there > usable.version) {
      throw new Broken(`version ${usable.version} is the volume, and version ${there} is there`);
    }
    const later = world.everywhere().filter(({ version }) => version > usable.version && version <= world.expected);
    const isNamed =
      later.length === 0 || later.some(({ node, pool }) => this.#named.has(node) || this.#named.has(pool));
    if (!isNamed) {
      const places = later.map(({ node, pool, version }) => `version ${version} on ${node}/${pool}`).join(', ');
      throw new Broken(`version ${usable.version} is the volume by no second word, and ${places} is away`);
    }
    // The later one is lost, as an operator has said.
    world.expected = usable.version;
  }

  #isBack(restores: boolean): void {
    const world = this.#world;
    if (!restores && !world.mayComeBack) throw new Broken('the volume was deleted, and can be used again');
    world.isDeleted = false;
    if (!restores) this.#isExcused = true;
  }

  /** The copy that pods can use: there are never two of them, once all have heard of each other. */
  async #one() {
    const world = this.#world;
    let usable = await world.usable();
    if (usable.length > 1) {
      await world.fleet.told();
      await world.fleet.keep();
      usable = await world.usable();
    }
    const linked = usable.filter(({ node }) => world.fleet.isLinked(node));
    if (linked.length > 1) throw new Broken(`two copies can be used: ${JSON.stringify(usable)}`);
    return usable.length === 1 ? usable[0] : undefined;
  }
}

function latest(copies: readonly { readonly version: number }[]): number {
  return copies.reduce((most, { version }) => Math.max(most, version), 0);
}

export interface HistoryOptions {
  /** The number of events. */
  readonly length: number;
  /** At its end, the documented commands must make a copy the volume again, and each snapshot one that can be used. */
  readonly requiresWayOut: boolean;
  readonly sharesBlocks: boolean;
}

/** One history. @returns what has happened @throws Broken, with the same */
export async function runHistory(
  seed: number,
  { length, requiresWayOut, sharesBlocks }: HistoryOptions,
): Promise<readonly string[]> {
  const random = new Random(seed);
  using scratch = new Scratch('history');
  await using world = await World.start(scratch, { sharesBlocks });
  const witness = new Witness(world);
  const happened: string[] = [];
  const nextEvent = eventsOf(random);
  try {
    for (let step = 0; step < length; step++) {
      const event = nextEvent();
      witness.before();
      const happening = await event(world, random);
      if (happening === undefined) continue;
      happened.push(happening.text);
      await witness.after(happening);
    }
    happened.push('-- the end: all is there again');
    const isUsable = await end(world, witness);
    if (requiresWayOut && !isUsable) await requireWayOut(world, witness, happened);
    if (requiresWayOut) await requireSnapshots(world, witness, happened);
  } catch (error) {
    const state = await world.describe().catch((failure: unknown) => String(failure));
    const broken = error instanceof Broken ? error.message : (error as Error).stack;
    throw new Broken(`seed ${seed}: ${broken}\n${happened.join('\n')}\n${state}`);
  }
  return happened;
}

/** All nodes and pools are there that are not lost. @returns true if the volume can be used then */
async function end(world: World, witness: Witness): Promise<boolean> {
  await world.stopPod();
  for (const name of nodeNames) {
    await world.down(name);
    if (world.fleet.isForgotten(name)) world.fleet.remember(name);
    for (const pool of poolNames) if (!world.disks.isOut(name, pool)) world.configured.get(name)?.add(pool);
    await world.up(name);
  }
  return settled(world, witness);
}

/** @returns true if the volume can be used once all have told each other what they have */
async function settled(world: World, witness: Witness): Promise<boolean> {
  await world.fleet.told();
  await world.fleet.keep();
  await world.rest(4_000);
  witness.before();
  await witness.after({ text: '' });
  return (await world.usable()).length === 1;
}

/** An operator tries the documented commands, those without a second word first. */
async function requireWayOut(world: World, witness: Witness, happened: string[]): Promise<void> {
  const command = async (
    change: 'cancel' | 'finish' | 'restore',
    node: NodeName,
    lost: LostByWord,
    evenSo: boolean,
  ) => {
    witness.before();
    const text = await world.fleet.command({ change, volume: id, node, evenSo, ...lost }).then(
      () => 'done',
      (error: Error) => error.message,
    );
    happened.push(`${change} --node ${node} ${JSON.stringify(lost)}${evenSo ? ' --even-so' : ''}: ${text}`);
    await witness.after({ text, lost, restores: true, ...(evenSo && { mayLose: 'regress' }) });
    return text === 'done' && (await settled(world, witness));
  };
  for (const evenSo of [false, true, false]) {
    for (const change of ['cancel', 'restore', 'finish'] as const) {
      for (const node of nodeNames) {
        for (const lostPool of change === 'cancel' ? [undefined] : [undefined, ...poolNames]) {
          if (await command(change, node, { lostPool }, evenSo)) return;
        }
      }
    }
    // One node never comes back, or two of them.
    for (const lost of [...nodeNames.map((name) => [name]), ...pairsOf(nodeNames)]) {
      for (const name of lost) {
        await world.down(name);
        world.fleet.forget(name);
      }
      for (const change of ['finish', 'cancel', 'restore'] as const) {
        for (const node of nodeNames) {
          for (const lostNode of lost) {
            if (!lost.includes(node) && (await command(change, node, { lostNode }, evenSo))) return;
          }
        }
      }
      for (const name of lost) {
        world.fleet.remember(name);
        await world.up(name);
      }
    }
  }
  if (latest(world.available()) > 0) throw new Broken('the volume cannot be used any more, and a copy is there');
}

function pairsOf(names: readonly NodeName[]): NodeName[][] {
  return names.flatMap((one, at) => names.slice(at + 1).map((other) => [one, other]));
}

/** Each snapshot can be used, if need be after the documented commands. */
async function requireSnapshots(world: World, witness: Witness, happened: string[]): Promise<void> {
  const unusable = async () => {
    const found: string[] = [];
    for (const snapshot of world.snapshots.made()) {
      if (world.snapshots.available(snapshot).length === 0) continue;
      await world.snapshots.look(snapshot).catch((error: unknown) => {
        if (!(error instanceof HoldfastError)) throw error;
        found.push(`${snapshot.name}: ${error.message}`);
      });
    }
    return found;
  };
  const isDone = async (change: string, command: Promise<unknown>, lost: LostByWord = {}) => {
    witness.before();
    const text = await command.then(
      () => 'done',
      (error: Error) => error.message,
    );
    happened.push(`${change}: ${text}`);
    await witness.after({ text, lost });
    await settled(world, witness);
    return (await unusable()).length === 0;
  };
  if ((await unusable()).length === 0) return;
  happened.push(`-- snapshots: ${(await unusable()).join('; ')}`);
  const volume = id;
  for (const node of [undefined, ...nodeNames]) {
    if (await isDone(`cancel --node ${node}`, world.fleet.command({ change: 'cancel', volume, node }))) return;
  }
  for (const node of nodeNames) {
    if (await isDone(`finish --node ${node}`, world.fleet.command({ change: 'finish', volume, node }))) return;
  }
  for (const lostPool of poolNames) {
    for (const node of nodeNames) {
      const command = world.fleet.command({ change: 'finish', volume, node, lostPool });
      if (await isDone(`finish --node ${node} --pool-is-lost ${lostPool}`, command, { lostPool })) return;
    }
  }
  for (const node of nodeNames) {
    const command = world.fleet.command({ change: 'move', volume, node, withSnapshots: true });
    if (await isDone(`move --to ${node} --with-snapshots`, command)) return;
  }
  throw new Broken(`snapshots cannot be used any more: ${(await unusable()).join('; ')}`);
}
