import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pino } from 'pino';
import type { UnaryCall } from '../../src/csi/pipeline.ts';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { StrayKeeper, strayDelayMs } from '../../src/fleet/controller/keepers/stray-keeper.ts';
import { requireOn } from '../../src/fleet/controller/made.ts';
import { CapacityTeller } from '../../src/fleet/node/capacity-teller.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { Random } from '../support/random.ts';
import { volumeOn } from './support/fleet.ts';
import { MemoryNode, MemoryReplica } from './support/memory-fleet.ts';
import type { Faults, MemoryLink } from './support/memory-link.ts';

const healthy: Faults = { random: new Random(1), cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 };
const idOn = (node: string, name: string) => volumeIdFor(node, 'default', name);

async function fleetOf(...nodes: MemoryNode[]): Promise<MemoryReplica> {
  const replica = new MemoryReplica(nodes.map(({ name }) => name));
  for (const node of nodes) await linked(replica, node);
  return replica;
}

async function linked(replica: MemoryReplica, node: MemoryNode): Promise<MemoryLink> {
  const link = node.link(replica, healthy);
  while (replica.state.node(node.name)?.hasTold !== true) await nextTurn();
  return link;
}

function fromVolume(node: string, name: string, volume_id: string): object {
  return { ...volumeOn(node, name), volume_content_source: { volume: { volume_id } } };
}

for (const [name, isTold] of [
  ['adopted.shop.db', false],
  ['by another name', true],
] as const) {
  test(`an adopted volume is never a stray: ${name}`, async () => {
    const [a, b] = [new MemoryNode('a'), new MemoryNode('b')];
    for (const node of [a, b]) {
      node.volumes.set(idOn(node.name, name), name);
      if (isTold) node.adopted.add(idOn(node.name, name));
    }
    const { sessions, state } = await fleetOf(a, b);
    let nowMs = 1_000_000;
    const keeper = new StrayKeeper({
      view: state,
      sessions,
      log: pino({ level: 'silent' }),
      recorded: async () => ({ idOf: () => idOn('b', name), has: (id) => id === idOn('b', name) }),
      now: () => nowMs,
    });
    await keeper.look();
    nowMs += strayDelayMs;
    await keeper.look();
    assert.equal(a.trash.size, 0);
    assert.equal(a.volumes.size, 1);
  });
}

test('T03: a copy that is there already is answered though its source has gone', async () => {
  const a = new MemoryNode('a');
  const replica = await fleetOf(a);
  await replica.call('CreateVolume', volumeOn('a', 'source'));
  const request = fromVolume('a', 'copy', idOn('a', 'source'));
  const first = await replica.call('CreateVolume', request);
  assert.notEqual(typeof first, 'string');
  await replica.call('DeleteVolume', { volume_id: idOn('a', 'source') });
  assert.deepEqual(await replica.call('CreateVolume', request), first);
  assert.equal(await replica.call('CreateVolume', fromVolume('a', 'never', idOn('a', 'source'))), 'NOT_FOUND');
});

test('a source that another replica has had made just now is found', async () => {
  const a = new MemoryNode('a');
  const replica = await fleetOf(a, new MemoryNode('b'));
  // Not told here yet.
  a.volumes.set(idOn('a', 'source'), 'source');
  assert.notEqual(typeof (await replica.call('CreateVolume', fromVolume('a', 'copy', idOn('a', 'source')))), 'string');
});

test('nothing is "not found" while the node of its PersistentVolume is away', async () => {
  const replica = await fleetOf(new MemoryNode('a'));
  const id = idOn('gone', 'x');
  replica.recorded.set(id, 'gone');
  for (const name of ['DeleteVolume', 'ControllerGetVolume', 'ControllerModifyVolume', 'ControllerExpandVolume']) {
    const request = { volume_id: id, capacity_range: { required_bytes: 1n }, mutable_parameters: { a: 'b' } };
    assert.equal(await replica.call(name, request), 'UNAVAILABLE', name);
  }
  assert.equal(await replica.call('CreateSnapshot', { source_volume_id: id, name: 's' }), 'UNAVAILABLE');
  assert.equal(await replica.call('CreateVolume', fromVolume('a', 'copy', id)), 'UNAVAILABLE');
  replica.isForgottenByClass = true;
  assert.equal(await replica.call('ControllerGetVolume', { volume_id: id }), 'NOT_FOUND');
});

test('a node that comes back while Kubernetes is asked is asked, too', async () => {
  const back = new MemoryNode('back');
  const replica = await fleetOf(new MemoryNode('a'));
  const id = idOn('back', 'x');
  back.volumes.set(id, 'x');
  replica.recorded.set(id, 'back');
  replica.whileListing = async () => {
    replica.whileListing = async () => undefined;
    replica.state.expect(['a', 'back']);
    await linked(replica, back);
  };
  assert.deepEqual(await replica.call('DeleteVolume', { volume_id: id }), {});
  assert.equal(back.volumes.size, 0, 'it was called deleted, and is there');
});

test('a deletion that is repeated waits for no node that has nothing to do with it', async () => {
  const [a, other] = [new MemoryNode('a'), new MemoryNode('other')];
  const replica = new MemoryReplica(['a', 'other']);
  await linked(replica, a);
  await replica.call('CreateVolume', volumeOn('a', 'x'));
  const request = { volume_id: idOn('a', 'x') };
  assert.deepEqual(await replica.call('DeleteVolume', request), {});
  assert.deepEqual(await replica.call('DeleteVolume', request), {});
  assert.equal(await replica.call('DeleteVolume', { volume_id: idOn('a', 'never') }), 'UNAVAILABLE');
  // Made again, it is deleted again; found on a node that comes back, too.
  await replica.call('CreateVolume', volumeOn('a', 'x'));
  assert.deepEqual(await replica.call('DeleteVolume', request), {});
  assert.equal(a.volumes.size, 0);
  other.volumes.set(request.volume_id, 'x');
  await linked(replica, other);
  assert.deepEqual(await replica.call('DeleteVolume', request), {});
  assert.equal(other.volumes.size, 0);
});

test('a deletion that is repeated waits for no node that has left the cluster since', async () => {
  const [a, b] = [new MemoryNode('a'), new MemoryNode('b')];
  const replica = new MemoryReplica(['a', 'b']);
  const link = await linked(replica, a);
  await linked(replica, b);
  await replica.call('CreateVolume', volumeOn('a', 'x'));
  const request = { volume_id: idOn('a', 'x') };
  assert.deepEqual(await replica.call('DeleteVolume', request), {});
  link.cut('it is gone');
  while (replica.state.node('a')?.isLinked === true) await nextTurn();
  assert.equal(await replica.call('DeleteVolume', request), 'UNAVAILABLE');
  replica.state.expect(['b']);
  assert.deepEqual(await replica.call('DeleteVolume', request), {});
});

test('secrets go to no node that has nothing to do with the call', async () => {
  const nodes = [new MemoryNode('a'), new MemoryNode('b')];
  const replica = await fleetOf(...nodes);
  await replica.call('DeleteVolume', { volume_id: idOn('a', 'gone'), secrets: { passphrase: 'hunter2' } });
  assert.deepEqual(
    nodes.flatMap(({ secrets }) => secrets),
    [{}, {}],
  );
  await replica.call('CreateVolume', volumeOn('a', 'x'));
  await replica.call('DeleteVolume', { volume_id: idOn('a', 'x'), secrets: { passphrase: 'hunter2' } });
  assert.deepEqual(nodes[0]?.secrets.at(-1), { passphrase: 'hunter2' });
});

test('a node that answers with what is not its own is not believed', async () => {
  const [a, liar] = [new MemoryNode('a'), new MemoryNode('liar')];
  const replica = await fleetOf(a, liar);
  await replica.call('CreateVolume', volumeOn('a', 'victim'));
  const at = (node: string) => [{ segments: { 'topology.holdfast.dev/node': node } }];
  const answer = async (volume_id: string, accessible_topology: object[]) => {
    liar.lie = { volume: { volume_id, accessible_topology } };
    return replica.call('CreateVolume', volumeOn('liar', 'x'));
  };
  assert.equal(await answer(idOn('a', 'victim'), at('a')), 'INTERNAL');
  assert.equal(await answer(idOn('a', 'victim'), at('liar')), 'INTERNAL');
  assert.equal(await answer('', at('liar')), 'INTERNAL');
  // It tells that it has it, which does not help.
  liar.volumes.set(idOn('a', 'victim'), 'victim');
  assert.equal(await answer(idOn('a', 'victim'), at('liar')), 'INTERNAL');
  liar.volumes.delete(idOn('a', 'victim'));
  liar.volumes.set(idOn('liar', 'x'), 'x');
  assert.equal(await answer(idOn('liar', 'x'), at('a')), 'INTERNAL');
  assert.equal(await answer(idOn('liar', 'x'), [...at('liar'), ...at('a')]), 'INTERNAL');
  assert.notEqual(typeof (await answer(idOn('liar', 'x'), at('liar'))), 'string');
});

test('a volume that a node makes while a pool of it is being opened is its own', () => {
  const state = new FleetState();
  state.expect(['a', 'b']);
  const id = idOn('a', 'new');
  const telling = state.linked('a');
  assert.throws(() => requireOn(state, 'a', id), /which it does not have/);
  const kind = 'VOLUME' as const;
  const volume = { id, kind, name: 'new', pool: 'default', source_id: '', group_id: '', adopted: false };
  telling.apply({ revision: 1n, starts: true, complete: false, put: [volume], gone: [], pools: [] });
  requireOn(state, 'a', id);
  assert.throws(() => requireOn(state, 'b', id), /which it does not have/);
});

test('a node whose pool cannot be opened has no room, after the time that an opening takes', async () => {
  let nowMs = 0;
  const sent: unknown[] = [];
  const unavailable: UnaryCall = async (_, reply) =>
    reply({ failure: { code: 'UNAVAILABLE', message: 'its disk is gone', stack: undefined } });
  const calls = { unary: new Map([['/csi.v1.Controller/GetCapacity', unavailable]]), streams: new Map() };
  const teller = new CapacityTeller(
    calls,
    ({ response }) => sent.push(response),
    () => nowMs,
  );
  await teller.ask({ question: 1n, request: Buffer.alloc(0) });
  assert.deepEqual(sent, []);
  nowMs = 61_000;
  await teller.tell();
  assert.deepEqual(sent, [Buffer.alloc(0)]);
});
