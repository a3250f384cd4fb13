import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import type { NodeInventory } from '../../src/fleet/controller/inventory.ts';
import { QuarantineKeeper, wellMs } from '../../src/fleet/controller/keepers/quarantine-keeper.ts';
import { keepCertificates } from '../../src/fleet/kubernetes/certificates.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';

const place = { namespace: 'holdfast', name: 'holdfast-controller' };
const own = { key: 'holdfast.csi.dev/quarantine', effect: 'NoSchedule' };
const others = [{ key: 'example.org/gpu', effect: 'NoExecute', value: 'yes' }];

test('a node has our taint while a pool of it is in quarantine, and all others as they were', async () => {
  using scratch = new Scratch('taint');
  await using double = await ApiDouble.start();
  const api = double.client(scratch);
  await keepCertificates(api, place);
  let nowMs = 0;
  class Replica {
    readonly state = new FleetState(() => nowMs);
    readonly keeper = new QuarantineKeeper({
      api,
      place,
      state: this.state,
      log: pino({ level: 'silent' }),
      driverName: 'holdfast.csi.dev',
      effect: 'NoSchedule',
      now: () => nowMs,
    });
    readonly #told = new Map<string, { inventory: NodeInventory; revision: bigint }>();

    tell(node: string, states: readonly string[]): void {
      const { inventory, revision } = this.#told.get(node) ?? { inventory: this.state.linked(node), revision: 0n };
      this.#told.set(node, { inventory, revision: revision + 1n });
      const pools = states.map((state, index) => ({ name: `pool-${index}`, kind: 'image', state, reason: '' }));
      inventory.apply({ revision: revision + 1n, starts: revision === 0n, complete: true, put: [], gone: [], pools });
      this.state.told(node, inventory);
    }

    away(node: string): void {
      this.#told.delete(node);
      this.state.away(node);
    }
  }
  const taints = (node: string) => double.known.taints.get(node);
  const nodes = ['a', 'b'];
  const start = () => {
    const replica = new Replica();
    replica.state.expect(nodes);
    for (const node of nodes) replica.tell(node, ['open', 'open']);
    return replica;
  };
  let replicas = [start(), start()];
  const tell = (node: string, states: readonly string[]) => {
    for (const replica of replicas) replica.tell(node, states);
  };
  const look = async () => {
    await Promise.all(replicas.map(({ keeper }) => keeper.look()));
  };
  for (const node of nodes) double.known.taints.set(node, others);
  try {
    await look();
    assert.equal(double.patches, 0, 'who is well is left alone');
    nowMs += wellMs;
    await look();
    // One replica has heard of it, and the other one not yet.
    replicas[0]?.tell('a', ['open', 'quarantined']);
    for (const { keeper } of replicas) await keeper.look();
    assert.deepEqual(taints('a'), [...others, own]);
    tell('a', ['open', 'quarantined']);
    await look();
    assert.deepEqual([taints('a'), taints('b')], [[...others, own], others]);

    // An operator knows better.
    double.known.taints.set('a', others);
    await look();
    assert.deepEqual(taints('a'), others);

    // Its Node is deleted, and its kubelet registers it anew: nobody has taken the taint away.
    double.known.taints.set('a', []);
    double.known.uids.set('a', 'another');
    await look();
    assert.deepEqual(taints('a'), [own]);
    double.known.taints.set('a', [own, ...others]);

    // It is away: nobody knows how its pools are. Nor does a replica before it has heard of the nodes.
    for (const replica of replicas) replica.away('a');
    nowMs += 10 * wellMs;
    replicas = [new Replica(), new Replica()];
    await look();
    for (const { state } of replicas) state.expect(nodes);
    nowMs += 10 * wellMs;
    await look();
    assert.deepEqual(taints('a'), [own, ...others]);

    // It is well, then not, then well for long enough: replicas that were started anew take it away.
    tell('a', ['open', 'open']);
    await look();
    nowMs += wellMs - 1;
    await look();
    tell('a', ['quarantined', 'open']);
    await look();
    tell('a', ['open', 'open']);
    nowMs += 1;
    await look();
    nowMs += wellMs - 1;
    await look();
    assert.deepEqual(taints('a'), [own, ...others]);
    nowMs += 1;
    await look();
    assert.deepEqual(taints('a'), others);

    // Ill again. After a restart of its driver the pool has never been open, and its disk is as dead as before.
    tell('a', ['quarantined', 'open']);
    await look();
    tell('a', ['failed', 'open']);
    await look();
    nowMs += 2 * wellMs;
    await look();
    assert.deepEqual(taints('a'), [...others, own]);
    tell('a', ['quarantined', 'open']);
    await look();

    // Then its Node is no more.
    assert.deepEqual(taints('a'), [...others, own]);
    double.known.taints.delete('a');
    for (const replica of replicas) {
      replica.away('a');
      replica.state.expect(['b']);
    }
    await look();
    const { patches } = double;
    for (let looks = 0; looks < 3; looks++) await look();
    assert.equal(double.patches, patches);
    assert.deepEqual(taints('b'), others);

    // One that cannot be changed is in nobody's way.
    double.known.taints.set('a', others);
    for (const replica of replicas) replica.state.expect(nodes);
    tell('a', ['quarantined']);
    tell('b', ['quarantined']);
    double.known.answers.set('/nodes/a', [403, { message: 'denied by a webhook' }]);
    for (const { keeper } of replicas) await assert.rejects(keeper.look(), /403 denied by a webhook/);
    assert.deepEqual([taints('a'), taints('b')], [others, [...others, own]]);
    double.known.answers.clear();
    await look();
    assert.deepEqual(taints('a'), [...others, own]);
  } finally {
    api.close();
  }
});
