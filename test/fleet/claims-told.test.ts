import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { pino } from 'pino';
import { z } from 'zod';
import { ClaimTeller, maxNotices, repeatMs } from '../../src/fleet/controller/claim-teller.ts';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { AbsenceKeeper, deniedMs } from '../../src/fleet/controller/keepers/absence-keeper.ts';
import { absenceNotes } from '../../src/fleet/controller/telling.ts';
import type { KubernetesApi } from '../../src/fleet/kubernetes/api.ts';
import { keepCertificates } from '../../src/fleet/kubernetes/certificates.ts';
import { persistentVolumes } from '../../src/fleet/kubernetes/persistent-volumes.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';

const log = pino({ level: 'silent' });
const driverName = 'holdfast.csi.dev';
const place = { namespace: 'holdfast', name: 'holdfast-controller' };
const afterMs = 5 * 60_000;
const minute = 60_000;

const event = z.object({
  involvedObject: z.object({ kind: z.string(), name: z.string(), uid: z.string() }),
  type: z.string(),
  reason: z.string(),
  message: z.string(),
  firstTimestamp: z.string(),
});

describe('claims are told by events', () => {
  const scratch = new Scratch('claims-told');
  let double: ApiDouble;
  let api: KubernetesApi;
  let nowMs = Date.parse('2026-01-01T00:00:00Z');
  let replicas: Replica[] = [];

  /** What tells, of one replica. */
  class Replica {
    readonly state = new FleetState(() => nowMs);
    readonly teller = new ClaimTeller({ api, log, driverName, controller: 'replica', now: () => nowMs });
    readonly #keeper = new AbsenceKeeper({
      state: this.state,
      notes: absenceNotes(api, place),
      teller: this.teller,
      volumes: () => persistentVolumes(api, driverName),
      log,
      afterMs,
      now: () => nowMs,
    });

    constructor(nodes: readonly string[]) {
      this.state.expect(nodes);
    }

    link(node: string, names: readonly string[]): void {
      const inventory = this.state.linked(node);
      const put = names.map((name) => {
        const id = volumeIdFor(node, 'default', name);
        return { kind: 'VOLUME' as const, id, name, pool: 'default', source_id: '', group_id: '', adopted: false };
      });
      inventory.apply({ revision: 1n, starts: true, complete: true, put, gone: [], pools: [] });
      this.state.told(node, inventory);
    }

    async look(): Promise<void> {
      await this.#keeper.look();
      while (await this.teller.tellNext());
    }
  }

  /** Time goes on, and all replicas look all the time. */
  async function passes(ms: number): Promise<void> {
    for (const end = nowMs + ms; nowMs < end; ) {
      nowMs += 10_000;
      for (const replica of replicas) await replica.look();
    }
  }

  const told = () =>
    [...double.known.events.values()].map((object) => {
      const { involvedObject, reason } = event.parse(object);
      return `${reason} ${involvedObject.uid}`;
    });

  const uid = (node: string, name: string) => `uid-of-${volumeIdFor(node, 'default', name)}`;

  before(async () => {
    double = await ApiDouble.start();
    api = double.client(scratch);
    await keepCertificates(api, place);
  });

  after(async () => {
    api.close();
    await double[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });

  beforeEach(() => {
    double.known.events.clear();
    double.known.volumes.clear();
    for (const [node, name] of [
      ['a', 'one'],
      ['a', 'two'],
      ['b', 'three'],
    ] as const) {
      double.known.volumes.set(volumeIdFor(node, 'default', name), node);
    }
    replicas = [new Replica(['a', 'b']), new Replica(['a', 'b'])];
    for (const replica of replicas) {
      replica.link('a', ['one', 'two']);
      replica.link('b', ['three']);
    }
  });

  test('once each that their node is away, by two replicas and over restarts, and that it is back', async () => {
    await passes(minute);
    for (const { state } of replicas) state.away('a');
    await passes(4 * minute);
    assert.deepEqual(told(), [], 'a node may be started anew in that time');
    await passes(2 * minute);
    assert.deepEqual(told().sort(), [`NodeAway ${uid('a', 'one')}`, `NodeAway ${uid('a', 'two')}`].sort());
    const [first] = double.known.events.values();
    assert.match(event.parse(first).message, /node a, which is away since 2026-01-01T00:01:00Z/);

    // Nobody remembers anything; and Kubernetes has dropped the Node, too.
    replicas = [new Replica(['b']), new Replica(['b'])];
    for (const replica of replicas) replica.link('b', ['three']);
    await passes(10 * minute);
    assert.equal(told().length, 2, 'since when is noted, so it is the same event');

    // It is back, without one of its volumes.
    for (const replica of replicas) replica.link('a', ['one']);
    await passes(minute);
    const back = [`NodeBack ${uid('a', 'one')}`, `NodeBackWithoutVolume ${uid('a', 'two')}`];
    assert.deepEqual(told().slice(2).sort(), back.sort());
    assert.equal((await absenceNotes(api, place).read()).size, 0);
    await passes(10 * minute);
    assert.equal(told().length, 4);
  });

  test('nothing while the node has a link to the other replica', async () => {
    const [without] = replicas;
    without?.state.away('a');
    await passes(3 * deniedMs);
    assert.deepEqual(told(), []);
  });

  test('nothing of a node that is back before anybody was told, or that an operator has forgotten', async () => {
    for (const { state } of replicas) {
      state.away('a');
      state.away('b');
    }
    await passes(4 * minute + 10_000);
    assert.deepEqual([...(await absenceNotes(api, place).read()).keys()].sort(), ['a', 'b']);
    for (const replica of replicas) {
      replica.link('a', ['one', 'two']);
      replica.state.forget(['b']);
    }
    await passes(30 * minute);
    assert.deepEqual(told(), []);
    assert.equal((await absenceNotes(api, place).read()).size, 0);
  });

  test('anew when Kubernetes has dropped the event, and not before', async () => {
    for (const { state } of replicas) state.away('b');
    await passes(6 * minute);
    assert.equal(told().length, 1);
    double.known.events.clear();
    await passes(repeatMs - 2 * minute);
    assert.equal(told().length, 0);
    await passes(3 * minute);
    assert.equal(told().length, 1);
  });

  test('once, and with the same time, when the Node of a node that is away is deleted', async () => {
    for (const { state } of replicas) state.away('b');
    await passes(6 * minute);
    assert.equal(told().length, 1);
    for (const { state } of replicas) state.expect(['a']);
    await passes(20 * minute);
    assert.equal(told().length, 1);
    // Nobody's volume is on it any more.
    double.known.volumes.delete(volumeIdFor('b', 'default', 'three'));
    await passes(6 * minute);
    assert.equal((await absenceNotes(api, place).read()).size, 0);
  });

  test('and so it is when a controller that is started anew cannot list volumes at once', async () => {
    for (const { state } of replicas) state.away('b');
    await passes(6 * minute);
    const noted = [...(await absenceNotes(api, place).read())];
    replicas = [new Replica(['a'])];
    double.known.refused.add('/persistentvolumes');
    const [replica] = replicas;
    replica?.link('a', ['one', 'two']);
    await assert.rejects(async () => replica?.look(), /503 not now/);
    nowMs += 10_000;
    await replica?.look();
    assert.deepEqual([...(await absenceNotes(api, place).read())], noted);
    double.known.refused.clear();
    await passes(20 * minute);
    assert.equal(told().length, 1);
  });

  test('all the time, though the API server keeps events a little longer than for an hour', async () => {
    for (const { state } of replicas) state.away('b');
    await passes(6 * minute);
    let [without, longest] = [0, 0];
    for (let minutes = 0; minutes < 200; minutes++) {
      nowMs += minute;
      for (const replica of replicas) await replica.look();
      for (const [key, object] of double.known.events) {
        const { firstTimestamp } = event.parse(object);
        if (nowMs - Date.parse(firstTimestamp) >= 61 * minute) double.known.events.delete(key);
      }
      without = told().length === 0 ? without + 1 : 0;
      longest = Math.max(longest, without);
    }
    assert.ok(longest > 0 && longest <= 5, `${longest} minutes without an event`);
  });

  test('again later, when the API server could not take it, and no more than so many', async () => {
    const [replica] = replicas;
    assert.ok(replica);
    const claim = { namespace: 'default', name: 'c', uid: 'u', volumeId: 'v' };
    const notices = Array.from({ length: maxNotices + 1 }, (_, index) => ({
      kind: 'away' as const,
      claim: { ...claim, uid: `${index}` },
      node: index < maxNotices ? 'a' : 'beyond',
      since: 'then',
    }));
    replica.teller.want(notices);
    assert.deepEqual([replica.teller.hasTold('a'), replica.teller.hasTold('beyond')], [false, true]);
    double.known.refused.add('/events');
    await assert.rejects(replica.teller.tellNext(), /503 not now/);
    double.known.refused.clear();
    // Nor has it been told when a token was too old, or a quota is counted by many.
    for (const status of [401, 409]) {
      double.known.answers.set('/events', [status, { kind: 'Status', reason: 'Conflict', message: 'try again' }]);
      await assert.rejects(replica.teller.tellNext(), /try again/);
    }
    double.known.answers.clear();
    assert.equal(await replica.teller.tellNext(), true);
    assert.equal(told().length, 1);
    // Their node is back: the others are not told any more.
    replica.teller.want([]);
    assert.equal(await replica.teller.tellNext(), false);
  });
});
