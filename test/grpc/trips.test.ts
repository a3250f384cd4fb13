import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { NodeHarness } from '../support/node-harness.ts';

/**
 * Counts calls on worker threads by their asynchronous resources: those of koffi have the name of the C function, those of
 * Node's filesystem calls these names.
 */
class Trips implements Disposable {
  readonly counts = new Map<string, number>();
  #phase = '';
  readonly #hook = createHook({
    init: (_id, type) => {
      if (!/^([a-z][a-z0-9_]*|FSREQPROMISE|FSREQCALLBACK|FILEHANDLECLOSEREQ)$/.test(type)) return;
      this.counts.set(this.#phase, (this.counts.get(this.#phase) ?? 0) + 1);
    },
  });

  constructor() {
    this.#hook.enable();
  }

  begin(phase: string): void {
    this.#phase = phase;
  }

  [Symbol.dispose](): void {
    this.#hook.disable();
  }
}

/** A call to a worker thread costs more than most system calls do. */
test('the life of a volume takes at most 40 trips to worker threads, on XFS in a file', async (t) => {
  await using harness = await NodeHarness.open('trips');
  await harness.stop();
  for (const made of ['data', 'pool']) rmSync(harness.scratch.join(made), { recursive: true });
  // Where the manifests have it: in memory.
  const notes = harness.scratch.join('data', 'node');
  mkdirSync(notes, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', 'none', notes]);
  const location = { type: 'file', path: harness.scratch.join('pool.img'), sizeBytes: 512n << 20n } as const;
  await harness.start(() => openTestPool(harness.scratch, { location, undeleteSeconds: 0 }));
  const trash = harness.scratch.join('data/pools/test/trash');

  const life = async (name: string, trips?: Trips) => {
    trips?.begin('create');
    const volume = await harness.volume(name, { type: 'mount', fsType: 'ext4' });
    // As the kubelet does, before it has it published.
    existsSync(volume.target);
    for (const operation of ['stage', 'publish', 'unpublish', 'unstage'] as const) {
      trips?.begin(operation);
      await volume[operation]();
    }
    trips?.begin('delete');
    await harness.pool.remove(volume.id);
    trips?.begin('destroy');
    await eventually(() => assert.deepEqual(readdirSync(trash), []));
    for (const made of [volume.pod, volume.staging]) rmdirSync(made);
  };
  // The template is made, and what is looked at once.
  for (const name of ['first', 'second']) await life(name);
  const lives: { readonly sum: number; readonly words: string }[] = [];
  // Another process that takes the free loop device first costs some more.
  for (const name of ['third', 'fourth', 'fifth']) {
    using trips = new Trips();
    await life(name, trips);
    const sum = [...trips.counts.values()].reduce((one, other) => one + other, 0);
    lives.push({ sum, words: Array.from(trips.counts, ([phase, count]) => `${phase} ${count}`).join(', ') });
  }
  const [{ sum, words } = { sum: Number.NaN, words: '' }] = lives.toSorted((one, other) => one.sum - other.sum);
  t.diagnostic(`${sum} trips: ${words}`);
  assert.ok(sum > 20, 'they are counted');
  assert.ok(sum <= 40, words);
});

/** A node with thousands of volumes is started again with each upgrade of its driver. */
test('a start takes at most two trips for each volume: to its record, and to an image that is not in memory', async (t) => {
  await using harness = await NodeHarness.open('start-trips');
  await harness.stop();
  for (const made of ['data', 'pool']) rmSync(harness.scratch.join(made), { recursive: true });
  const location = { type: 'file', path: harness.scratch.join('pool.img'), sizeBytes: 2n << 30n } as const;
  const open = () => openTestPool(harness.scratch, { location, overcommit: 100 });
  await harness.start(open);
  const startWithMore = async (count: number, label: string) => {
    const names = Array.from({ length: count }, (_, index) => `${label}-${index}`);
    await Promise.all(names.map((name) => harness.pool.create(volumeSpec(name))));
    // One start more, for what the node has to be asked once.
    await harness.restart({ openPool: open });
    await harness.stop();
    using trips = new Trips();
    trips.begin('start');
    await harness.start(open);
    return trips.counts.get('start') ?? 0;
  };
  const few = await startWithMore(1, 'first');
  const more = (await startWithMore(50, 'more')) - few;
  t.diagnostic(`${few} trips with one volume, ${more} for 50 more`);
  assert.ok(more >= 50, 'they are counted');
  // Some are not for a volume, and fall into one of the starts by chance. One more for each volume would be 150.
  assert.ok(more <= 125, `${more} for 50 volumes`);
});
