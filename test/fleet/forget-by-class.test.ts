import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { z } from 'zod';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { GoneNodes } from '../../src/fleet/controller/keepers/gone-nodes.ts';
import type { KubernetesApi } from '../../src/fleet/kubernetes/api.ts';
import { keepCertificates } from '../../src/fleet/kubernetes/certificates.ts';
import type { RecordedVolume } from '../../src/fleet/kubernetes/persistent-volumes.ts';
import { countGone, type Gone, type Seen, seenNow } from '../../src/fleet/routing/gone.ts';
import { repeatable } from '../crash/seeded-random.ts';
import { eventually } from '../support/eventually.ts';
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

const place = { namespace: 'holdfast', name: 'holdfast-controller' };

/** Two replicas, their API server, and a clock. */
class Fleet implements AsyncDisposable {
  readonly double: ApiDouble;
  nowMs = 0;
  replicas: ReturnType<Fleet['replica']>[] = [];
  readonly #scratch: Scratch;
  readonly #api: KubernetesApi;

  private constructor(scratch: Scratch, double: ApiDouble) {
    this.#scratch = scratch;
    this.double = double;
    this.#api = double.client(scratch);
  }

  static async start(): Promise<Fleet> {
    const fleet = new Fleet(new Scratch('forget-by-class'), await ApiDouble.start());
    await keepCertificates(fleet.#api, place);
    fleet.double.known.classes.set('day', { forgetNodeAfter: '1d' });
    fleet.startAnew();
    return fleet;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    using _scratch = this.#scratch;
    this.#api.close();
    await this.double[Symbol.asyncDispose]();
  }

  replica() {
    const state = new FleetState();
    const log = pino({ level: 'silent' });
    const options = { api: this.#api, place, state, log, driverName: 'holdfast.csi.dev', now: () => this.nowMs };
    return { state, gone: new GoneNodes(options) };
  }

  startAnew(): void {
    this.replicas = [this.replica(), this.replica()];
    for (const { state } of this.replicas) state.expect(['a']);
  }

  /** What each replica says. */
  ask(className = 'day'): Promise<boolean[]> {
    return Promise.all(this.replicas.map(({ gone }) => gone.mayForget(record(className))));
  }

  /** A deletion waits at the first one, and both look. */
  async pass(ms: number): Promise<void> {
    for (const end = this.nowMs + ms; this.nowMs < end; ) {
      this.nowMs += 15 * minute;
      await this.replicas[0]?.gone.mayForget(record('day'));
      for (const { gone } of this.replicas) await gone.look();
    }
  }

  noted(): Record<string, Gone> {
    const { data } = secret.parse(this.double.known.objects.get('secrets/holdfast-controller'));
    return JSON.parse(Buffer.from(data['gone-nodes'] ?? 'e30=', 'base64').toString());
  }
}

const secret = z.object({ data: z.record(z.string(), z.string()) });

function record(className: string): RecordedVolume[] {
  const facts = { claim: undefined, phase: 'Released', reclaimPolicy: 'Delete' };
  return [{ ...facts, name: 'pvc', handle: 'vol', node: 'n', className }];
}

const never = [false, false];
const both = [true, true];

test('a released volume of a node that is gone is forgotten when its class says so, and not before', async () => {
  await using fleet = await Fleet.start();
  const { known } = fleet.double;
  known.classes.set('never', {}).set('soon', { forgetNodeAfter: '1h' });
  await fleet.ask();
  await fleet.pass(8 * hour);
  assert.deepEqual(await fleet.ask(), never);
  // The controller is started anew, a month later.
  fleet.nowMs += 30 * day;
  fleet.startAnew();
  await fleet.pass(15 * hour);
  assert.deepEqual(await fleet.ask(), never, 'time without a controller does not count');
  await fleet.pass(3 * hour);
  assert.deepEqual(await fleet.ask(), both);
  for (const name of ['never', 'soon', 'none']) assert.deepEqual(await fleet.ask(name), never, name);
  const bound = record('day').map((one) => ({ ...one, phase: 'Bound' }));
  assert.equal(await fleet.replicas[0]?.gone.mayForget(bound), false);

  // Kubernetes has its Node again, of which the replicas have not heard yet.
  known.taints.set('n', []);
  assert.deepEqual(await fleet.ask(), never);
  known.taints.delete('n');
  assert.deepEqual(await fleet.ask(), both);
  // It is not Kubernetes that says there is none.
  known.answers.set('/nodes/n', [404, { message: 'default backend' }]);
  await assert.rejects(fleet.ask(), /404 default backend/);
  known.answers.clear();

  // It has a link to one of them, for a moment: all begins anew.
  fleet.replicas[1]?.state.linked('n');
  assert.deepEqual(await fleet.ask(), [true, false]);
  fleet.replicas[1]?.state.away('n');
  assert.deepEqual(await fleet.ask(), [true, false]);
  await fleet.pass(15 * minute);
  assert.deepEqual(await fleet.ask(), never);
  await fleet.pass(22 * hour);
  assert.deepEqual(await fleet.ask(), never);
  await fleet.pass(4 * hour);
  assert.deepEqual(await fleet.ask(), both);

  // Before a replica has heard of the nodes it says nothing, and changes nothing.
  const early = fleet.replica();
  await early.gone.look();
  assert.equal(await early.gone.mayForget(record('day')), false);
  assert.deepEqual(await fleet.ask(), both);
});

test('a node that only the other replica has seen, and for a moment, is counted from then on', async () => {
  await using fleet = await Fleet.start();
  const [one, other] = fleet.replicas;
  assert.ok(one && other);
  for (const { gone } of fleet.replicas) await gone.look();
  // It links after one replica has noted it, and is away again before the other one looks.
  await one.gone.mayForget(record('day'));
  await one.gone.look();
  other.state.linked('n');
  other.state.away('n');
  fleet.nowMs += 10 * minute;
  await other.gone.look();
  assert.deepEqual(fleet.noted(), {});

  // It had its link before, and loses it.
  other.state.linked('n');
  await other.gone.look();
  await one.gone.mayForget(record('day'));
  await one.gone.look();
  assert.deepEqual(Object.keys(fleet.noted()), ['n']);
  other.state.away('n');
  fleet.nowMs += 10 * minute;
  await other.gone.look();
  assert.deepEqual(fleet.noted(), {});
  await one.gone.mayForget(record('day'));
  await one.gone.look();
  await other.gone.look();
  assert.deepEqual(Object.keys(fleet.noted()), ['n']);
});

test('a node that is back is noted at once, for the other replica may have no link to it', async () => {
  await using fleet = await Fleet.start();
  await fleet.pass(26 * hour);
  assert.deepEqual(await fleet.ask(), both);
  const stopping = new AbortController();
  const other = fleet.replicas[1];
  const running = other?.gone.run(stopping.signal);
  try {
    other?.state.linked('n');
    await eventually(() => assert.deepEqual(fleet.noted(), {}));
    assert.deepEqual(await fleet.ask(), never);
  } finally {
    stopping.abort();
    await running;
  }
});
