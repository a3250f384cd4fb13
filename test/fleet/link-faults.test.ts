import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type * as wire from '../../src/csi/generated/types.ts';
import { maxCallsEach } from '../../src/fleet/controller/forwarded-calls.ts';
import { repeatable } from '../crash/seeded-random.ts';
import { Random, testSeed } from '../support/random.ts';
import { volumeOn } from './support/fleet.ts';
import { MemoryNode, MemoryReplica } from './support/memory-fleet.ts';
import type { Faults, MemoryLink } from './support/memory-link.ts';

/** A sidecar comes again on these. */
const passing = ['UNAVAILABLE', 'ABORTED', 'DEADLINE_EXCEEDED'];
const mostTries = 5_000;

class Fleet {
  readonly nodes = ['a', 'b'].map((name) => new MemoryNode(name));
  replicas: MemoryReplica[];
  readonly #faults: () => Faults;
  #links = new Set<MemoryLink>();
  #hasEnded = false;

  constructor(faults: () => Faults) {
    this.#faults = faults;
    this.replicas = [0, 1].map(() => this.#replica());
  }

  /** A replica that lost its memory: a new one in its place. */
  restart(index: number): void {
    this.replicas[index] = this.#replica();
  }

  /** Until it is answered for good, each time by another replica. */
  async call<R extends object>(name: string, request: object): Promise<R | string> {
    for (let tries = 0; tries < mostTries; tries++) {
      const answer = await this.replicas[tries % 2]?.call<R>(name, request);
      if (answer !== undefined && !(typeof answer === 'string' && passing.includes(answer))) return answer;
      await nextTurn();
    }
    throw new Error(`${name} was never answered`);
  }

  end(): void {
    this.#hasEnded = true;
    for (const link of this.#links) link.cut('the test is over');
  }

  #replica(): MemoryReplica {
    const replica = new MemoryReplica(this.nodes.map(({ name }) => name));
    for (const node of this.nodes) this.#keep(node, replica);
    return replica;
  }

  #keep(node: MemoryNode, replica: MemoryReplica): void {
    if (this.#hasEnded) return;
    const link = node.link(replica, this.#faults());
    this.#links.add(link);
    link.node.onEnd(() => {
      this.#links.delete(link);
      setImmediate(() => this.#keep(node, replica));
    });
  }
}

/** A life of two volumes on each node; what is answered must be so. */
async function life(fleet: Fleet, between: () => void = () => undefined): Promise<void> {
  for (const node of fleet.nodes) {
    for (const name of ['kept', 'gone']) {
      const made = await fleet.call<wire.CreateVolumeResponse>('CreateVolume', volumeOn(node.name, name));
      assert.ok(typeof made !== 'string', `${made}`);
      const volume_id = made.volume?.volume_id ?? '';
      assert.equal(node.volumes.get(volume_id), name, 'what is answered as made is there');
      between();
      const shown = await fleet.call<wire.ControllerGetVolumeResponse>('ControllerGetVolume', { volume_id });
      assert.ok(typeof shown !== 'string', `a volume that is there was ${shown}`);
      if (name !== 'gone') continue;
      between();
      assert.deepEqual(await fleet.call('DeleteVolume', { volume_id }), {});
      assert.ok(!node.volumes.has(volume_id), 'what is answered as deleted is gone');
      assert.equal(await fleet.call('ControllerGetVolume', { volume_id }), 'NOT_FOUND');
    }
  }
  for (const { made, volumes } of fleet.nodes) {
    assert.deepEqual([...volumes.values()], ['kept']);
    assert.equal(made, 2, 'none was made twice');
  }
}

test('the first links are cut at every message, whichever way it goes: each call is answered right in the end', async () => {
  const seed = testSeed();
  await repeatable(seed, async () => {
    for (let cutAfter = 0; cutAfter < 40; cutAfter++) {
      let links = 0;
      const random = new Random(seed, `cut ${cutAfter}`);
      // Those that come after the first four stay.
      const fleet = new Fleet(() => ({
        random,
        cutAfter: links++ < 4 ? cutAfter : Number.POSITIVE_INFINITY,
        twiceOf: 0,
      }));
      try {
        await life(fleet);
      } finally {
        fleet.end();
      }
    }
  });
});

test('links that are cut all the time, answers that come twice, replicas that lose their memory', async (context) => {
  const seed = testSeed();
  context.diagnostic(`seed ${seed}`);
  await repeatable(seed, async () => {
    for (let run = 0; run < 100; run++) {
      const random = new Random(seed, `run ${run}`);
      const fleet = new Fleet(() => ({ random, cutAfter: random.integer(3, 60), twiceOf: 3 }));
      try {
        await life(fleet, () => {
          if (random.integer(1, 4) === 1) fleet.restart(random.integer(0, 1));
        });
      } finally {
        fleet.end();
      }
    }
  });
});

test('a node that hangs costs the calls for others nothing, and is refused quickly when it has too many', async () => {
  const random = new Random(1);
  const replica = new MemoryReplica(['a', 'b']);
  const [a, b] = [new MemoryNode('a'), new MemoryNode('b')];
  const healthy: Faults = { random, cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 };
  const link = a.link(replica, healthy);
  b.link(replica, healthy);
  for (const name of ['a', 'b']) while (replica.state.node(name)?.hasTold !== true) await nextTurn();
  a.hangs = true;
  const stuck = Array.from({ length: maxCallsEach }, (_, index) =>
    replica.call('CreateVolume', volumeOn('a', `${index}`)),
  );
  assert.equal(await replica.call('CreateVolume', volumeOn('a', 'one more')), 'UNAVAILABLE');
  assert.ok(typeof (await replica.call('CreateVolume', volumeOn('b', 'other'))) !== 'string');
  link.cut('the node is gone');
  assert.deepEqual(new Set(await Promise.all(stuck)), new Set(['UNAVAILABLE']));
});

test('T02: who waits no longer is told so; the node goes on', async () => {
  const replica = new MemoryReplica(['a']);
  const a = new MemoryNode('a');
  a.link(replica, { random: new Random(1), cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 });
  while (replica.state.node('a')?.hasTold !== true) await nextTurn();
  a.hangs = true;
  const late = await replica.call('CreateVolume', volumeOn('a', 'slow'), new Date(Date.now() + 20));
  assert.equal(late, 'DEADLINE_EXCEEDED');
  assert.equal(replica.sessions.get('a').calls.running, 1);
});
