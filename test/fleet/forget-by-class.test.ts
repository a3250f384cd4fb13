import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { pino } from 'pino';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { GoneNodes } from '../../src/fleet/controller/gone-nodes.ts';
import { KubernetesApi } from '../../src/fleet/kubernetes/api.ts';
import type { RecordedVolume } from '../../src/fleet/kubernetes/persistent-volumes.ts';
import { keepMaterial } from '../../src/fleet/kubernetes/secret.ts';
import { countGone, type Gone, type Seen, seenNow } from '../../src/fleet/routing/gone.ts';
import { repeatable } from '../crash/seeded-random.ts';
import { Random, testSeed } from '../support/random.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/** Counts as a replica does, with a clock of its own that began some time. */
class Counter {
  readonly #bootMs: number;
  #seen = new Map<string, Seen>();
  hasReturned = false;

  constructor(bootMs: number) {
    this.#bootMs = bootMs;
  }

  look(notes: Map<string, Gone>, realMs: number, { isLost }: { readonly isLost: boolean }): void {
    const nowMs = realMs - this.#bootMs;
    const isGone = () => !this.hasReturned;
    countGone(notes, { asked: new Set(['n']), isGone, seen: this.#seen, nowMs, newId: () => `${realMs}` });
    // The Secret was changed, and the replica does not hear it.
    if (isLost) return;
    this.hasReturned = false;
    this.#seen = seenNow(notes, this.#seen, nowMs);
  }
}

test('whatever replicas do, a node is never counted longer than it was gone; and it is counted in the end', async (context) => {
  const seed = testSeed();
  context.diagnostic(`seed ${seed}`);
  await repeatable(seed, async () => {
    for (let run = 0; run < 200; run++) {
      const random = new Random(seed, `run ${run}`);
      let realMs = random.integer(0, 10 * day);
      let goneAtMs = realMs;
      const boot = () => realMs - random.integer(0, 10 * day);
      const counters = [new Counter(boot()), new Counter(boot())];
      const notes = new Map<string, Gone>();
      const checked = () => {
        const seconds = notes.get('n')?.seconds ?? 0;
        assert.ok(seconds * 1000 <= realMs - goneAtMs, `${seconds} s are counted of ${realMs - goneAtMs} ms`);
      };
      for (let turn = 0; turn < 300; turn++) {
        realMs += random.integer(0, random.integer(0, 20) === 0 ? day : 10 * minute);
        const at = random.integer(0, 1);
        const what = random.integer(0, 19);
        if (what === 0) counters[at] = new Counter(boot());
        else if (what === 1) {
          // It was there for a moment. Both hear it: whoever does not knows nothing of before, and counts nothing of it.
          for (const counter of counters) counter.hasReturned = true;
          goneAtMs = realMs;
          notes.delete('n');
        } else counters[at]?.look(notes, realMs, { isLost: what === 2 });
        checked();
      }
      const beforeMs = realMs;
      const counted = () => (notes.get('n')?.seconds ?? 0) * 1000;
      const was = counted();
      for (let turn = 0; turn < 300; turn++) {
        realMs += random.integer(3 * minute, 6 * minute);
        counters[turn % 2]?.look(notes, realMs, { isLost: false });
        checked();
      }
      assert.ok(counted() - was > (realMs - beforeMs) * 0.8, 'it goes on');
    }
  });
});

test('a released volume of a node that is gone is forgotten when its class says so, and not before', async () => {
  using scratch = new Scratch('forget-by-class');
  await using double = await ApiDouble.start();
  const [authorityPath, tokenPath] = [scratch.join('ca.crt'), scratch.join('token')];
  writeFileSync(authorityPath, double.authority);
  writeFileSync(tokenPath, 'controller');
  const api = new KubernetesApi({ url: new URL(double.url), authorityPath, tokenPath });
  const place = { namespace: 'holdfast', name: 'holdfast-controller' };
  await keepMaterial(api, place);
  double.known.classes.set('day', { forgetNodeAfter: '1d' }).set('never', {}).set('soon', { forgetNodeAfter: '1h' });
  let nowMs = 0;
  const replica = () => {
    const state = new FleetState();
    const log = pino({ level: 'silent' });
    const gone = new GoneNodes({ api, place, state, log, driverName: 'holdfast.csi.dev', now: () => nowMs });
    state.expect(['a']);
    return { state, gone };
  };
  let replicas = [replica(), replica()];
  const record = (className: string): RecordedVolume[] => [
    { name: 'pvc', handle: 'vol', node: 'n', claim: undefined, phase: 'Released', reclaimPolicy: 'Delete', className },
  ];
  const ask = (className = 'day') => Promise.all(replicas.map(({ gone }) => gone.mayForget(record(className))));
  const pass = async (ms: number) => {
    for (const end = nowMs + ms; nowMs < end; ) {
      nowMs += 15 * minute;
      await replicas[0]?.gone.mayForget(record('day'));
      for (const { gone } of replicas) await gone.look();
    }
  };
  const never = [false, false];
  const both = [true, true];
  try {
    await ask();
    await pass(8 * hour);
    assert.deepEqual(await ask(), never);
    // The controller is started anew, a month later.
    nowMs += 30 * day;
    replicas = [replica(), replica()];
    await pass(15 * hour);
    assert.deepEqual(await ask(), never, 'time without a controller does not count');
    await pass(3 * hour);
    assert.deepEqual(await ask(), both);
    for (const name of ['never', 'soon', 'none']) assert.deepEqual(await ask(name), never, name);
    const bound = record('day').map((one) => ({ ...one, phase: 'Bound' }));
    assert.equal(await replicas[0]?.gone.mayForget(bound), false);

    // Kubernetes has its Node again, of which the replicas have not heard yet.
    double.known.taints.set('n', []);
    assert.deepEqual(await ask(), never);
    double.known.taints.delete('n');
    assert.deepEqual(await ask(), both);

    // It has a link to one of them, for a moment: all begins anew.
    replicas[1]?.state.linked('n');
    assert.deepEqual(await ask(), [true, false]);
    replicas[1]?.state.away('n');
    assert.deepEqual(await ask(), [true, false]);
    await pass(15 * minute);
    assert.deepEqual(await ask(), never);
    await pass(22 * hour);
    assert.deepEqual(await ask(), never);
    await pass(4 * hour);
    assert.deepEqual(await ask(), both);

    // Before a replica has heard of the nodes it says nothing, and changes nothing.
    const state = new FleetState();
    const log = pino({ level: 'silent' });
    const early = new GoneNodes({ api, place, state, log, driverName: 'holdfast.csi.dev', now: () => nowMs });
    await early.look();
    assert.equal(await early.mayForget(record('day')), false);
    assert.deepEqual(await ask(), both);
  } finally {
    api.close();
  }
});
