import type { Random } from '../../support/random.ts';
import { id, type NodeName, nodeNames, type Place, type PoolName, poolNames } from './place.ts';
import { refusalOf, type World } from './world.ts';

/** An event of a history. */
export interface Happening {
  /** For the log: what was tried, and what came of it. */
  readonly text: string;
  /** An operator's second word, or a disk that is lost: a later copy may be gone, or an earlier one be the volume. */
  readonly mayLose?: 'destroy' | 'regress';
  /** A volume that was deleted may be there again. */
  readonly restores?: boolean;
  /** The node and the pool that an operator takes for lost, by his words: a later copy there may be given up. */
  readonly lost?: LostByWord;
}

export interface LostByWord {
  readonly lostNode?: string | undefined;
  readonly lostPool?: string | undefined;
}

type Event = (world: World, random: Random) => Promise<Happening | undefined>;

function anyPlace(random: Random): Place {
  return { node: random.pick(nodeNames) ?? 'a', pool: random.pick(poolNames) ?? 'data' };
}

/** More often one that has something of the volume. */
function aPlace(world: World, random: Random): Place {
  const hot = world.ends ?? world.hot();
  return random.integer(0, 3) === 0 ? anyPlace(random) : (random.pick(hot) ?? anyPlace(random));
}

function aNode(world: World, random: Random, among: readonly NodeName[] = nodeNames): NodeName | undefined {
  const hot = (world.ends ?? world.hot()).map(({ node }) => node).filter((node) => among.includes(node));
  return random.integer(0, 2) === 0 ? random.pick(among) : (random.pick(hot) ?? random.pick(among));
}

function thereOf(world: World): NodeName[] {
  return [...world.nodes.keys()];
}

async function outcome(work: Promise<unknown>): Promise<string> {
  const startedMs = performance.now();
  const text = await work.then(
    () => 'done',
    (error: unknown) => refusalOf(error),
  );
  const seconds = (performance.now() - startedMs) / 1000;
  return seconds > 5 ? `${text} (${seconds.toFixed(1)} s)` : text;
}

/** The snapshots follow the volume, or stay. */
function follow(world: World, random: Random): boolean {
  return world.snapshots.made().length > 0 && random.integer(0, 2) > 0;
}

/** The volume moves to another node, or to another pool of its node. */
const orderAnywhere: Event = async (world, random) => {
  const { node, pool } = anyPlace(random);
  const toPool = random.integer(0, 2) === 0 ? undefined : pool;
  const isBehind = random.integer(0, 3) === 0;
  const withSnapshots = follow(world, random);
  const text = await outcome(world.fleet.command({ change: 'move', volume: id, node, toPool, withSnapshots }));
  if (text === 'done' && !isBehind) world.record(node);
  return { text: `move --to ${node} ${toPool ?? ''}${withSnapshots ? ' --with-snapshots' : ''}: ${text}` };
};

const orderWithin: Event = async (world, random) => {
  const name = aNode(world, random, thereOf(world));
  const pool = random.pick(poolNames);
  if (name === undefined || pool === undefined) return undefined;
  const withSnapshots = follow(world, random);
  const text = await outcome(world.node(name).mover.start(id, pool, undefined, withSnapshots));
  return { text: `on ${name}: move --to-pool ${pool}${withSnapshots ? ' --with-snapshots' : ''}: ${text}` };
};

/** A story begins: the volume moves from where it is to any other place. */
const anotherMove: Event = async (world, random) => {
  const [from] = await world.usable();
  const to = anyPlace(random);
  world.ends = from === undefined ? undefined : [from, to];
  return undefined;
};

const orderAsTold: Event = async (world, random) => {
  if (world.ends === undefined) return orderAnywhere(world, random);
  const [from, { node, pool }] = world.ends;
  const withSnapshots = follow(world, random);
  const isWithin = from.node === node;
  if (isWithin && !world.nodes.has(node)) return undefined;
  const text = await outcome(
    isWithin
      ? world.node(node).mover.start(id, pool, undefined, withSnapshots)
      : world.fleet.command({ change: 'move', volume: id, node, toPool: pool, withSnapshots }),
  );
  if (text === 'done' && !isWithin && random.integer(0, 3) > 0) world.record(node);
  return {
    text: `from ${from.node}/${from.pool} move to ${node}/${pool}${withSnapshots ? ' --with-snapshots' : ''}: ${text}`,
  };
};

const takeSnapshot: Event = async (world) => {
  if (!world.sharesBlocks) return undefined;
  let name = '';
  const text = await outcome(
    world.snapshots.take().then((taken) => {
      name = taken.name;
    }),
  );
  return { text: `a snapshot ${name}: ${text}` };
};

const deleteSnapshot: Event = async (world, random) => {
  const snapshot = random.pick(world.snapshots.known.filter(({ state }) => state !== 'lost'));
  if (snapshot === undefined) return undefined;
  return { text: `snapshot ${snapshot.name} is deleted: ${await outcome(world.snapshots.delete(snapshot))}` };
};

const rest: Event = async (world, random) => {
  const ms = random.pick([30, 100, 300, 1500]) ?? 0;
  await world.rest(ms);
  return { text: `${ms} ms pass` };
};

const pod: Event = async (world) => {
  if (world.pod === undefined) {
    const started = await world.startPod();
    if (started === undefined) return { text: 'no pod can start' };
    world.writePod();
    return { text: `a pod on ${started.node} writes ${world.written}` };
  }
  world.writePod();
  await world.stopPod();
  return { text: `the pod writes ${world.written} and ends` };
};

const podWrites: Event = async (world) => {
  const there = world.pod ?? (await world.startPod());
  if (there === undefined) return undefined;
  world.writePod();
  await world.stopPod();
  return { text: `a pod on ${there.node} writes ${world.written} and ends` };
};

const deleteVolume: Event = async (world) => {
  if (world.pod !== undefined || world.isDeleted) return undefined;
  return { text: `the volume is deleted: ${await outcome(world.delete())}`, mayLose: 'destroy' };
};

const refuseCommits: Event = async (world, random) => {
  const place = aPlace(world, random);
  world.refuseCommits(place);
  return { text: `${place.node}/${place.pool} commits nothing` };
};

const refuseSettling: Event = async (world, random) => {
  const place = aPlace(world, random);
  world.refuseSettling(place);
  return { text: `${place.node}/${place.pool} settles nothing` };
};

const refuseGiving: Event = async (world, random) => {
  const place = aPlace(world, random);
  world.refuseGiving(place);
  return { text: `${place.node}/${place.pool} hands nothing over` };
};

const cut: Event = async (world, random) => {
  const name = aNode(world, random, thereOf(world));
  if (name === undefined) return undefined;
  if (world.fleet.isLinked(name)) world.fleet.cut(name);
  else await world.fleet.link(world.node(name));
  return { text: `${name} is ${world.fleet.isLinked(name) ? 'linked' : 'cut off'}` };
};

const down: Event = async (world, random) => {
  const name = aNode(world, random, thereOf(world));
  if (name === undefined || world.nodes.size === 1) return undefined;
  await world.down(name);
  return { text: `${name} is away` };
};

const up: Event = async (world, random) => {
  const name = random.pick(nodeNames.filter((each) => !world.nodes.has(each)));
  if (name === undefined) return undefined;
  const wasForgotten = world.fleet.isForgotten(name);
  if (wasForgotten) world.fleet.remember(name);
  await world.up(name);
  await world.fleet.keep();
  return { text: `${name} is back${wasForgotten ? ', and not forgotten any more' : ''}` };
};

const forget: Event = async (world, random) => {
  const name = random.pick(nodeNames.filter((each) => !world.nodes.has(each) && !world.fleet.isForgotten(each)));
  if (name === undefined) return undefined;
  world.fleet.forget(name);
  return { text: `${name} is forgotten` };
};

const restart: Event = async (world, random) => {
  const name = aNode(world, random, thereOf(world));
  if (name === undefined) return undefined;
  await world.down(name);
  await world.up(name);
  return { text: `${name} starts again` };
};

const controller: Event = async (world) => {
  await world.fleet.replaceController();
  await world.fleet.told();
  return { text: 'another controller' };
};

const keep: Event = async (world) => {
  await world.fleet.keep();
  return { text: 'the keepers look' };
};

/** A pool leaves the configuration of its node, or comes back. */
const configure: Event = async (world, random) => {
  const { node, pool } = aPlace(world, random);
  const here = world.configured.get(node);
  if (here === undefined || world.disks.isOut(node, pool)) return undefined;
  await world.whileDown(node, () => {
    if (here.size > 1 && here.has(pool)) here.delete(pool);
    else here.add(pool);
  });
  return { text: `${node}/${pool} is ${here.has(pool) ? 'in' : 'out of'} the configuration` };
};

/** A pool leaves the configuration of its node, or comes back, while a pod uses the volume. */
const configureUnderPod: Event = async (world, random) => {
  const { pod } = world;
  const here = pod && world.configured.get(pod.node);
  const pool = random.pick(poolNames);
  if (pod === undefined || here === undefined || pool === undefined || world.disks.isOut(pod.node, pool))
    return undefined;
  await world.restartUnderPod(() => {
    if (here.size > 1 && here.has(pool)) here.delete(pool);
    else here.add(pool);
  });
  return {
    text: `${pod.node}/${pool} is ${here.has(pool) ? 'in' : 'out of'} the configuration, and a pod uses ${pod.pool}`,
  };
};

/** The disk of a pool is lost, as its operator thinks. */
const lose: Event = async (world, random) => {
  const { node, pool } = aPlace(world, random);
  const here = world.configured.get(node);
  if (here === undefined || here.size < 2 || !here.has(pool) || !world.disks.exists(node, pool)) return undefined;
  await world.whileDown(node, () => {
    here.delete(pool);
    world.disks.takeOut(node, pool);
    world.lost.add(`${node}/${pool}`);
  });
  return { text: `the disk of ${node}/${pool} is lost` };
};

/** A disk that was taken for lost is there again. */
const find: Event = async (world, random) => {
  const [node, pool] = (random.pick([...world.lost]) ?? '').split('/') as [NodeName, PoolName];
  if (pool === undefined) return undefined;
  await world.whileDown(node, () => {
    world.disks.putIn(node, pool);
    world.disks.forgetId(node, pool);
    world.lost.delete(`${node}/${pool}`);
    world.configured.get(node)?.add(pool);
  });
  return { text: `the disk of ${node}/${pool} is there again` };
};

const save: Event = async (world, random) => {
  const { node, pool } = aPlace(world, random);
  if (!world.disks.exists(node, pool)) return undefined;
  await world.whileDown(node, () => {
    world.saved.push({ node, pool, name: world.disks.save(node, pool) });
  });
  return { text: `the disk of ${node}/${pool} is saved` };
};

const bringBack: Event = async (world, random) => {
  const saved = random.pick(world.saved);
  if (saved === undefined) return undefined;
  const { name, node, pool } = saved;
  // Both together are what docs/move.md does not cover.
  if (!world.disks.exists(node, pool) || world.noteless.has(node)) return undefined;
  world.putBack.add(node);
  const wasHere = !world.nodes.has(node) || (await world.isValid({ node, pool }));
  await world.whileDown(node, () => {
    world.disks.bringBack(node, pool, name);
    world.disks.forgetId(node, pool);
  });
  world.snapshots.comeBack();
  world.mayComeBack = true;
  return {
    text: `the disk of ${node}/${pool} is as it was when ${name.slice(name.lastIndexOf('/') + 1)} was made`,
    mayLose: wasHere ? 'regress' : 'destroy',
  };
};

const replaceDisk: Event = async (world, random) => {
  const place = aPlace(world, random);
  const { node, pool } = place;
  if (!world.isConfigured(place) || !world.disks.exists(node, pool)) return undefined;
  const wasHere = !world.nodes.has(node) || (await world.isValid(place));
  await world.whileDown(node, () => {
    world.disks.remove(node, pool);
    world.disks.forgetId(node, pool);
  });
  return { text: `${node}/${pool} has an empty disk`, mayLose: wasHere ? 'regress' : 'destroy' };
};

/** A node loses all that its driver has noted. */
const loseNotes: Event = async (world, random) => {
  const name = aNode(world, random, thereOf(world));
  if (name === undefined || world.putBack.has(name)) return undefined;
  world.noteless.add(name);
  await world.whileDown(name, () => world.disks.removeOwn(name));
  return { text: `${name} has lost its own disk` };
};

/** The operator's words, true as far as he knows. */
function words(world: World, random: Random, node: NodeName) {
  const lostNodes = nodeNames.filter((name) => world.fleet.isForgotten(name));
  const away = poolNames.filter((pool) => !world.isConfigured({ node, pool }));
  const anyAway = poolNames.filter((pool) => nodeNames.some((name) => !world.isConfigured({ node: name, pool })));
  const which = random.integer(0, 3);
  return {
    lostNode: which === 1 ? random.pick(lostNodes) : undefined,
    lostPool: which === 2 ? (random.pick(away) ?? random.pick(anyAway)) : undefined,
  };
}

function said({
  evenSo,
  lostNode,
  lostPool,
}: {
  evenSo?: boolean;
  lostNode?: string | undefined;
  lostPool?: string | undefined;
}) {
  return [
    lostNode === undefined ? '' : ` --node-is-lost ${lostNode}`,
    lostPool === undefined ? '' : ` --pool-is-lost ${lostPool}`,
    evenSo === true ? ' --even-so' : '',
  ].join('');
}

const command =
  (change: 'cancel' | 'finish' | 'restore'): Event =>
  async (world, random) => {
    const node = aNode(world, random) ?? 'a';
    const { lostNode, lostPool } = words(world, random, node);
    const evenSo = random.integer(0, 7) === 0;
    const isAnywhere = change === 'cancel' && lostNode === undefined && random.integer(0, 1) === 0;
    const wishes = { lostNode, lostPool: change === 'cancel' ? undefined : lostPool, evenSo };
    const text = await outcome(
      world.fleet.command({ change, volume: id, node: isAnywhere ? undefined : node, ...wishes }),
    );
    // `--resume` comes after a cancel.
    const [usable] = await world.usable();
    if (text.startsWith('done') && usable !== undefined && random.integer(0, 3) > 0) world.record(usable.node);
    return {
      text: `${change}${isAnywhere ? '' : ` --node ${node}`}${said(wishes)}: ${text}`,
      lost: wishes,
      restores: change !== 'cancel',
      ...(evenSo ? { mayLose: 'regress' as const } : {}),
    };
  };

const commandWithin =
  (change: 'cancel' | 'finish'): Event =>
  async (world, random) => {
    const name = aNode(world, random, thereOf(world));
    if (name === undefined) return undefined;
    const { mover } = world.node(name);
    const { lostPool } = words(world, random, name);
    const evenSo = random.integer(0, 7) === 0;
    if (change === 'finish' && lostPool === undefined) return undefined;
    const text = await outcome(
      change === 'cancel'
        ? mover.cancel(id, undefined, undefined, evenSo)
        : mover.finish(id, { lostPool: lostPool ?? '' }, evenSo),
    );
    return {
      text: `on ${name}: ${change}${said({ lostPool: change === 'finish' ? lostPool : undefined, evenSo })}: ${text}`,
      lost: change === 'finish' ? { lostPool } : {},
      ...(evenSo ? { mayLose: 'regress' as const } : {}),
    };
  };

type Weighted = readonly [weight: number, event: Event];

/** Those without which nothing goes on, each with its weight. */
const always: readonly Weighted[] = [
  [10, orderAnywhere],
  [9, rest],
  [6, podWrites],
  [5, up],
];

const others: readonly Weighted[] = [
  [4, orderWithin],
  [4, pod],
  [5, takeSnapshot],
  [2, deleteSnapshot],
  [7, refuseCommits],
  [2, refuseSettling],
  [4, refuseGiving],
  [1, deleteVolume],
  [2, cut],
  [3, down],
  [2, forget],
  [2, restart],
  [1, controller],
  [2, keep],
  [3, configure],
  [3, configureUnderPod],
  [2, lose],
  [2, find],
  [4, save],
  [4, bringBack],
  [2, replaceDisk],
  [1, loseNotes],
  [5, command('cancel')],
  [3, command('finish')],
  [4, command('restore')],
  [5, commandWithin('cancel')],
  [1, commandWithin('finish')],
];

/** The events of a history: in any order, or as stories, of which each is a move that goes wrong, and what its operator does then. */
export function eventsOf(random: Random): () => Event {
  return random.integer(0, 2) === 0 ? anyOrder(random) : stories(random);
}

/** With fewer kinds of events, those that are left go further. */
function anyOrder(random: Random): () => Event {
  const share = random.pick([3, 6, 10]) ?? 10;
  const possible = [...always, ...others.filter(() => random.below(10) < share)];
  return () => anyOf(possible, random);
}

function stories(random: Random): () => Event {
  let left: Event[] = [];
  return () => {
    if (left.length === 0) left = story(random);
    return left.shift() ?? rest;
  };
}

function story(random: Random): Event[] {
  const one = (...events: readonly Event[]) => random.pick(events) ?? rest;
  const maybe = (...events: readonly Event[]) => (random.integer(0, 1) === 0 ? [] : [one(...events)]);
  const loss = [configure, configure, lose, replaceDisk, bringBack, bringBack, down];
  const order = one(command('cancel'), commandWithin('cancel'), command('finish'), command('restore'));
  return [
    anotherMove,
    ...maybe(save),
    ...maybe(refuseCommits, refuseSettling, refuseSettling, refuseGiving),
    orderAsTold,
    rest,
    ...maybe(save),
    ...maybe(restart, cut, takeSnapshot),
    ...maybe(podWrites),
    ...(random.integer(0, 2) === 0 ? [pod, configureUnderPod] : [one(...loss)]),
    ...maybe(...loss, forget),
    order,
    ...maybe(podWrites),
    ...maybe(order, commandWithin('finish'), command('restore')),
    ...(random.integer(0, 3) === 0 ? [deleteVolume, ...maybe(configure), command('restore')] : []),
    ...maybe(find, up, configure),
    one(up, keep, rest),
    podWrites,
  ];
}

function anyOf(possible: readonly Weighted[], random: Random): Event {
  const total = possible.reduce((sum, [weight]) => sum + weight, 0);
  let at = random.below(total);
  for (const [weight, event] of possible) {
    at -= weight;
    if (at < 0) return event;
  }
  return rest;
}
