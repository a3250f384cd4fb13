import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pino } from 'pino';
import { StrayKeeper, strayDelayMs } from '../../src/fleet/controller/keepers/stray-keeper.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { repeatable } from '../crash/seeded-random.ts';
import { Random, testSeed } from '../support/random.ts';
import { MemoryNode, MemoryReplica } from './support/memory-fleet.ts';
import type { Faults, MemoryLink } from './support/memory-link.ts';

const idOn = (node: string, name: string) => volumeIdFor(node, 'default', name);
const names = ['moved', 'both recorded', 'none recorded', 'cut', 'recorded nowhere', 'alone'];

/** Two nodes. `a` has what first tries left; `b` has what the claims have now. */
class Moved {
  readonly a = new MemoryNode('a');
  readonly b = new MemoryNode('b');
  readonly replicas: readonly MemoryReplica[];
  readonly keepers: readonly StrayKeeper[];
  nowMs = 1_000_000;
  /** What PersistentVolumes stand for. */
  readonly handles: Map<string, string>;
  readonly #faults: () => Faults;
  readonly #links = new Set<MemoryLink>();
  #hasEnded = false;

  constructor(faults: () => Faults) {
    this.#faults = faults;
    for (const name of names) this.a.volumes.set(idOn('a', name), name);
    for (const name of names.filter((one) => one !== 'alone')) this.b.volumes.set(idOn('b', name), name);
    this.a.snapshots.set('snapshot', idOn('a', 'cut'));
    this.handles = new Map([
      ['moved', idOn('b', 'moved')],
      ['both recorded', idOn('b', 'both recorded')],
      ['by hand', idOn('a', 'both recorded')],
      ['cut', idOn('b', 'cut')],
      // What it stands for nobody has.
      ['recorded nowhere', idOn('c', 'recorded nowhere')],
      ['alone', idOn('c', 'alone')],
    ]);
    const recorded = async () => ({
      idOf: (name: string) => this.handles.get(name),
      has: (id: string) => [...this.handles.values()].some((handle) => handle === id),
    });
    this.replicas = [0, 1].map(() => new MemoryReplica(['a', 'b']));
    this.keepers = this.replicas.map(
      ({ sessions, state }) =>
        new StrayKeeper({
          view: state,
          sessions,
          log: pino({ level: 'silent' }),
          recorded,
          now: () => this.nowMs,
        }),
    );
    for (const replica of this.replicas) for (const node of [this.a, this.b]) this.#keep(node, replica);
  }

  /** Both replicas look, at the same time. */
  async look(): Promise<void> {
    await Promise.all(this.keepers.map((keeper) => keeper.look()));
  }

  async told(): Promise<void> {
    for (const { state } of this.replicas) {
      for (const name of ['a', 'b']) while (state.node(name)?.hasTold !== true) await nextTurn();
    }
  }

  end(): void {
    this.#hasEnded = true;
    for (const link of this.#links) link.cut('the test is over');
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

test('what a first try left goes to the trash for a week, after a delay, and nothing else does', async () => {
  const fleet = new Moved(() => ({ random: new Random(1), cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 }));
  try {
    await fleet.told();
    await fleet.look();
    fleet.nowMs += strayDelayMs - 1;
    await fleet.look();
    assert.equal(fleet.a.trash.size, 0, 'not before the delay is over');
    fleet.nowMs++;
    await fleet.look();
    assert.deepEqual([...fleet.a.trash], [[idOn('a', 'moved'), '7d']]);
    assert.deepEqual([...fleet.a.volumes.values()], names.slice(1));
    assert.equal(fleet.b.trash.size, 0);
    assert.equal(fleet.b.volumes.size, names.length - 1);

    // Somebody brings it back: it is his now.
    fleet.a.trash.clear();
    fleet.a.volumes.set(idOn('a', 'moved'), 'moved');
    for (const replica of fleet.replicas) {
      // With the answer the node tells what it has.
      await replica.call('ControllerGetVolume', { volume_id: idOn('a', 'moved') });
      await replica.call('ControllerGetVolume', { volume_id: idOn('a', 'alone') });
      while (replica.state.owners(idOn('a', 'moved')).length === 0) await nextTurn();
    }
    await fleet.look();
    fleet.nowMs += 10 * strayDelayMs;
    await fleet.look();
    assert.equal(fleet.a.trash.size, 0);
  } finally {
    fleet.end();
  }
});

test('what a first try left goes, too, if its claim has lived less than the delay', async () => {
  const fleet = new Moved(() => ({ random: new Random(1), cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 }));
  try {
    await fleet.told();
    await fleet.look();
    fleet.nowMs += strayDelayMs / 3;
    fleet.handles.delete('moved');
    fleet.nowMs += strayDelayMs;
    await fleet.look();
    assert.equal(fleet.a.trash.size, 0, 'while the other is there somebody may be about to record one of them');
    fleet.b.volumes.delete(idOn('b', 'moved'));
    for (const replica of fleet.replicas) {
      await replica.call('ControllerGetVolume', { volume_id: idOn('b', 'cut') });
      while (replica.state.owners(idOn('b', 'moved')).length > 0) await nextTurn();
    }
    await fleet.look();
    assert.deepEqual([...fleet.a.trash], [[idOn('a', 'moved'), '7d']]);
    assert.equal(fleet.b.trash.size, 0);
  } finally {
    fleet.end();
  }
});

test('links that are cut all the time, and two replicas: it is in the trash in the end, and nothing else is', async (context) => {
  const seed = testSeed();
  context.diagnostic(`seed ${seed}`);
  await repeatable(seed, async () => {
    for (let run = 0; run < 50; run++) {
      const random = new Random(seed, `run ${run}`);
      const fleet = new Moved(() => ({ random, cutAfter: random.integer(3, 30), twiceOf: 3 }));
      try {
        for (let look = 0; fleet.a.trash.size === 0; look++) {
          assert.ok(look < 5_000, 'it was never put into the trash');
          fleet.nowMs += strayDelayMs / 2;
          await fleet.look();
          await nextTurn();
        }
        for (let look = 0; look < 10; look++) {
          fleet.nowMs += strayDelayMs;
          await fleet.look();
          await nextTurn();
        }
        assert.deepEqual([...fleet.a.trash], [[idOn('a', 'moved'), '7d']]);
        assert.deepEqual([...fleet.a.volumes.values()], names.slice(1));
        assert.equal(fleet.b.volumes.size, names.length - 1);
      } finally {
        fleet.end();
      }
    }
  });
});
