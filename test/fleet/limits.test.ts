import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pino } from 'pino';
import type { Calls } from '../../src/csi/call.ts';
import { Door } from '../../src/fleet/controller/door.ts';
import { FleetState } from '../../src/fleet/controller/fleet-state.ts';
import { ForwardedCalls, maxCallsEach } from '../../src/fleet/controller/forwarded-calls.ts';
import { BadInventory, NodeInventory } from '../../src/fleet/controller/inventory.ts';
import { NodeSession } from '../../src/fleet/controller/node-session.ts';
import { waitedFor } from '../../src/fleet/kubernetes/nodes.ts';
import { BadToken } from '../../src/fleet/kubernetes/token-review.ts';
import { CapacityTeller } from '../../src/fleet/node/capacity-teller.ts';
import { NodeLink } from '../../src/fleet/node/node-link.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { soon } from '../support/eventually.ts';
import { Random } from '../support/random.ts';
import { volumeOn } from './support/fleet.ts';
import { MemoryNode, MemoryReplica } from './support/memory-fleet.ts';
import { type Faults, MemoryLink } from './support/memory-link.ts';

const healthy: Faults = { random: new Random(1), cutAfter: Number.POSITIVE_INFINITY, twiceOf: 0 };

async function linked(replica: MemoryReplica, node: MemoryNode): Promise<MemoryLink> {
  const link = node.link(replica, healthy);
  while (replica.state.node(node.name)?.hasTold !== true) await nextTurn();
  return link;
}

describe('a node that comes by two addresses of one replica', () => {
  const silent = pino({ level: 'silent' });
  const welcomed = async (linked_to: readonly string[], hasOther: boolean) => {
    const link = new MemoryLink(healthy);
    const seen = { isReady: false, ended: '' };
    new NodeSession(link.controller, {
      node: 'a',
      driverName: 'test',
      controller: 'first',
      instance: 'x',
      state: new FleetState(),
      log: silent,
      renew: async () => undefined,
      hasOther: () => hasOther,
      onReady: () => {
        seen.isReady = true;
      },
      onEnd: () => undefined,
    });
    link.controller.onEnd((reason) => {
      seen.ended = reason;
    });
    const hello = { node_id: 'a', driver_name: 'test', driver_version: '1', instance: 'n', linked_to: [...linked_to] };
    const node = new NodeLink(link.node, { hello, ...new MemoryNode('a').served, log: silent });
    for (let turn = 0; node.replica === ''; turn++) {
      assert.ok(turn < 1000, 'it was not welcome');
      await nextTurn();
    }
    link.cut('the test is over');
    return { ...seen, isWelcome: node.isWelcome, replica: node.replica };
  };

  test('keeps the link that is there, and ends the other', async () => {
    const ended = 'first is linked by another of its addresses';
    assert.deepEqual(await welcomed(['y', 'x'], true), { isReady: false, ended, isWelcome: false, replica: 'x' });
  });

  test('has a new link to a replica that lost the one before, or to another', async () => {
    const ended = 'the test is over';
    assert.deepEqual(await welcomed(['y'], true), { isReady: true, ended, isWelcome: true, replica: 'x' });
    assert.equal((await welcomed(['x'], false)).isReady, true);
  });
});

describe('a new token', () => {
  /** A session whose node comes with one, and what ended it. */
  function renewal(reviews: readonly Error[]) {
    const seen = { ended: '', tries: 0 };
    let receive: (message: object) => void = () => undefined;
    new NodeSession(
      {
        send: () => undefined,
        onMessage: (listener) => {
          receive = (message) => listener({ ...empty, ...message });
        },
        onEnd: () => undefined,
        end: (reason) => {
          seen.ended = reason;
        },
      },
      {
        node: 'a',
        driverName: 'test',
        controller: 'test',
        instance: 'test',
        hasOther: () => false,
        beatMs: 1 << 30,
        state: new FleetState(),
        log: pino({ level: 'silent' }),
        renew: async () => {
          const error = reviews[seen.tries++];
          if (error !== undefined) throw error;
        },
        onReady: () => undefined,
        onEnd: () => undefined,
      },
    );
    receive({
      hello: { node_id: 'a', driver_name: 'test', driver_version: '', instance: '', linked_to: [], protocol: 1 },
    });
    receive({ renewal: { token: 'new' } });
    return seen;
  }
  const empty = {
    answer: null,
    beat: null,
    capacity: null,
    hello: null,
    inventory: null,
    leaving: null,
    part: null,
    renewal: null,
  };

  test('that nobody can review now is reviewed again, and the link goes on', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const seen = renewal([new Unavailable('503'), new Unavailable('503')]);
    for (let turn = 0; seen.tries < 3; turn++) {
      assert.ok(turn < 1000, `${seen.tries} tries`);
      await nextTurn();
      t.mock.timers.tick(1_000);
    }
    assert.equal(seen.ended, '');
  });

  test('that is none ends the link', async () => {
    const seen = renewal([new BadToken('it is none')]);
    for (let turn = 0; seen.ended === '' && turn < 1000; turn++) await nextTurn();
    assert.match(seen.ended, /it is none/);
  });
});

describe('what a node tells', () => {
  const volume = (name: string) => {
    const id = volumeIdFor('a', 'default', name);
    return { kind: 'VOLUME' as const, id, name, pool: 'default', source_id: '', group_id: '', adopted: false };
  };
  const first = { revision: 1n, starts: true, complete: true, put: [], gone: [], pools: [] };

  test('has names as long as they can be, and no longer ones', () => {
    new NodeInventory('a').apply({ ...first, put: [volume('x'.repeat(512))] });
    const inventory = new NodeInventory('a');
    assert.throws(() => inventory.apply({ ...first, put: [volume('x'.repeat(513))] }), BadInventory);
    const pool = { name: 'x'.repeat(513), kind: '', state: 'open', reason: '' };
    assert.throws(() => new NodeInventory('a').apply({ ...first, pools: [pool] }), BadInventory);
  });

  test('has reasons of which the beginning is kept', () => {
    const inventory = new NodeInventory('a');
    inventory.apply({ ...first, pools: [{ name: 'x', kind: '', state: 'failed', reason: 'y'.repeat(1 << 20) }] });
    assert.equal(inventory.pools[0]?.reason.length, 1024);
  });

  test('is no more than a replica can hold', () => {
    const inventory = new NodeInventory('a');
    const tell = () => {
      for (let index = 0; index < 80; index++) {
        const put = Array.from({ length: 1000 }, (_, each) => volume(`${index} ${each} ${'x'.repeat(490)}`));
        inventory.apply({ ...first, revision: BigInt(index + 1), starts: index === 0, put });
      }
    };
    assert.throws(tell, (error) => error instanceof BadInventory && /bytes/.test(error.message));
  });
});

describe('the door', () => {
  test('closes what has no link any more, and what was refused', async () => {
    const door = await Door.open({ host: '127.0.0.1', port: 0, admit: () => undefined, strangerMs: 20 });
    try {
      const came = async () => {
        const socket = connect(door.port, '127.0.0.1');
        socket.on('error', () => undefined);
        const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
        socket.resume();
        await new Promise<void>((resolve) => socket.once('connect', () => resolve()));
        const peer = `127.0.0.1:${socket.localPort}`;
        while (!door.has(peer)) await nextTurn();
        return { closed, peer };
      };
      const linked = await came();
      door.known(linked.peer);
      door.known(linked.peer);
      door.left(linked.peer);
      assert.equal(door.strangers, 0, 'it has a link still');
      door.left(linked.peer);
      assert.equal(door.strangers, 1);
      await soon(linked.closed, 'it is not closed');
      const refused = await came();
      door.sendAway(refused.peer);
      assert.equal(door.has(refused.peer), false);
      await soon(refused.closed, 'it is not closed');
    } finally {
      await door.close();
    }
  });
});

test('a node that this driver was seen on is waited for, whatever other drivers are on it', () => {
  const ours = new Set<string>();
  const labelled = new Set(['a', 'b']);
  const seen = (isOurs: boolean) => new Map([['a', { isOurs, isAnothers: !isOurs }]]);
  assert.deepEqual(waitedFor({ csiNodes: seen(false), labelled, ours }), ['b'], 'it was never seen there');
  assert.deepEqual(waitedFor({ csiNodes: seen(true), labelled, ours }), ['a', 'b']);
  // While its driver is restarted the kubelet takes it out.
  assert.deepEqual(waitedFor({ csiNodes: seen(false), labelled, ours }).sort(), ['a', 'b']);
  labelled.delete('a');
  assert.deepEqual(waitedFor({ csiNodes: seen(false), labelled, ours }), ['b'], 'its Node is gone');
  labelled.add('a');
  assert.deepEqual(waitedFor({ csiNodes: seen(false), labelled, ours }), ['b']);
});

test('capacity: a node that has not told yet has no room that anybody knows, and none if it does not exist', async () => {
  const replica = new MemoryReplica(['a', 'b']);
  await linked(replica, new MemoryNode('a'));
  const ask = (node: string) =>
    replica.call('GetCapacity', { accessible_topology: { segments: { 'topology.holdfast.dev/node': node } } });
  const room = await ask('a');
  assert.ok(typeof room === 'object' && 'available_capacity' in room && room.available_capacity === 1n << 40n);
  assert.equal(await ask('b'), 'UNAVAILABLE');
  const none = await ask('c');
  assert.ok(typeof none === 'object' && 'available_capacity' in none && none.available_capacity === 0n);
});

test('capacity: the last question of many is answered, too', async () => {
  const told: bigint[] = [];
  const calls = {
    unary: new Map([['/csi.v1.Controller/GetCapacity', async (_call, reply) => reply({ response: Buffer.from('x') })]]),
    streams: new Map(),
  } as Calls;
  const teller = new CapacityTeller(calls, ({ question }) => told.push(BigInt(question ?? 0)));
  for (let question = 1n; question <= 1_001n; question++) await teller.ask({ question, request: Buffer.alloc(0) });
  assert.equal(told.at(-1), 1_001n);
});

test('a node that hangs keeps no claim that may lie elsewhere', async () => {
  const replica = new MemoryReplica(['a', 'b']);
  const [a, b] = [new MemoryNode('a'), new MemoryNode('b')];
  const link = await linked(replica, a);
  await linked(replica, b);
  a.hangs = true;
  for (let index = 0; index < maxCallsEach; index++) {
    void replica.call('CreateVolume', volumeOn('a', `stuck ${index}`));
  }
  await nextTurn();
  const { accessibility_requirements: _on, ...anywhere } = { ...volumeOn('a', 'x') } as Record<string, unknown>;
  assert.notEqual(typeof (await replica.call('CreateVolume', anywhere)), 'string');
  assert.equal(b.made, 1);
  // One that is perhaps being made there is not made twice.
  assert.equal(await replica.call('CreateVolume', { ...anywhere, name: 'stuck 0' }), 'UNAVAILABLE');
  assert.equal(b.made, 1);
  link.cut('the test is over');
});

test('streams that nobody reads take no places of calls', () => {
  const calls = new ForwardedCalls('a', () => undefined);
  const forward = { method: 'x', request: Buffer.alloc(0), deadline: undefined };
  const { signal } = new AbortController();
  for (let index = 0; index < 32; index++)
    calls
      .stream(forward, signal)
      .next()
      .catch(() => undefined);
  assert.equal(calls.running, 32);
  calls.call(forward).catch(() => undefined);
  assert.equal(calls.running, 33);
  calls.fail('the test is over');
});
