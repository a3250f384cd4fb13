import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { Unavailable } from '../../volume/errors.ts';
import { parseHandle } from '../../volume/handle.ts';
import type { NodeKind, NodeSide, VolumeOnNode } from '../node-side.ts';
import { type ServerOptions, Servers } from './servers.ts';

const unused = () => assert.fail('not asked');
const log = { info() {}, warn() {}, error() {} };

function kind(open: NodeKind['open']): NodeKind {
  const traits = { detaching: 'automatic', accessModes: [] } as const;
  return { ...{ name: 'test', traits, namingKeys: [], keys: [] }, read: unused, shows: unused, serverOf, open };
}

const serverOf = ({ context }: VolumeOnNode) => context['server'] ?? '';
const side = (name: string): NodeSide => ({ name, attach: unused, attached: unused });
const sides = kind(async ({ server }) => side(server));

function servers(options: Partial<ServerOptions> = {}): Servers {
  return new Servers({ dataDirectory: '/', log, threadsEach: 1, threads: 8, ...options });
}

function volumeHandle(text: string) {
  const handle = parseHandle(text);
  assert.ok(handle !== undefined);
  return handle;
}

const on = (server: string, handle = 'pv'): VolumeOnNode => ({
  ...{ handle: volumeHandle(handle), content: { type: 'directory' }, accessModes: [], provisioning: 'thin' },
  context: { server },
});
const hanging = (queue: DiskQueue) => queue.run(() => new Promise<void>(() => undefined));

test('each server has a queue, which all its volumes share', async () => {
  const all = servers({ threads: 2 });
  const names = Array.from({ length: 20 }, (_, index) => `${index}`);
  const queues = await Promise.all(names.map(async (name) => (await all.get(sides, on(name))).queue));
  assert.equal(new Set(queues).size, 20);
  assert.equal((await all.get(sides, on('3', 'another'))).queue, queues[3]);
  all.stop();
});

test('volumes that share no fate share no queue, and a server is one server nevertheless', async () => {
  const programs: NodeKind = { ...sides, fateOf: ({ handle }) => handle };
  const all = servers();
  const [a, b] = await Promise.all(['a', 'b'].map((handle) => all.get(programs, on('program', handle))));
  assert.notEqual(a?.queue, b?.queue);
  assert.equal(a?.side.name, 'program');
  assert.equal(b?.side.name, 'program');
  all.stop();
});

test('servers that hang leave threads for one that answers, and get no more than all servers have', {
  timeout: 20_000,
}, async () => {
  const all = servers({ threads: 8, threadsEach: 4 });
  const hung = await Promise.all(['a', 'b', 'c'].map((name) => all.get(sides, on(name))));
  for (const { queue } of hung) for (let call = 0; call < 6; call++) hanging(queue).catch(() => undefined);
  // Two are kept for servers without a call: the third that hangs gets one of them.
  assert.equal(
    hung.reduce((sum, { queue }) => sum + queue.running, 0),
    7,
  );
  const { queue } = await all.get(sides, on('well'));
  assert.equal(await queue.run(async () => 'answered'), 'answered');
  all.stop();
});

test('a call that waits for the threads of other servers is given up, too, and later ones run', {
  timeout: 20_000,
}, async () => {
  const all = servers({ threads: 1, silentAfterMs: 1, tickMs: 1 });
  const { promise, resolve } = Promise.withResolvers<void>();
  const hung = await all.get(sides, on('hangs'));
  // Either of the two may be given up first.
  const givenUp = assert.rejects(
    hung.queue.run(() => promise),
    /test hangs has not answered/,
  );
  const { queue } = await all.get(sides, on('well'));
  await assert.rejects(
    queue.run(async () => undefined),
    /calls for test well wait until one of the other servers of this node answers/,
  );
  await givenUp;
  resolve();
  const later = await all.get(sides, on('well'));
  assert.equal(await later.queue.run(async () => 'answered'), 'answered');
  all.stop();
});

test('the queue of a server that nothing uses any more goes', { timeout: 20_000 }, async () => {
  const all = servers({ idleAfterMs: 1, tickMs: 1 });
  const { promise, resolve } = Promise.withResolvers<void>();
  const busy = await all.get(sides, on('busy'));
  const running = busy.queue.run(() => promise);
  await all.get(sides, on('refused'));
  while (all.queues.length > 1) await new Promise(setImmediate);
  assert.deepEqual(all.queues, [busy.queue]);
  resolve();
  await running;
  while (all.queues.length > 0) await new Promise(setImmediate);
  all.forget(sides, on('busy'));
  all.stop();
});

test('a server that could not be opened is opened again', async () => {
  let tries = 0;
  const failing = kind(async ({ server }) => {
    if (++tries === 1) throw new Unavailable('no route');
    return side(server);
  });
  const all = servers();
  await assert.rejects(all.get(failing, on('a')), /no route/);
  assert.equal((await all.get(failing, on('a'))).side.name, 'a');
  all.stop();
});

test('calls that hang are given up, others go on, and a server cannot take threads again and again', {
  timeout: 20_000,
}, async () => {
  const all = servers({ silentAfterMs: 1, tickMs: 1 });
  const other = await all.get(sides, on('other'));
  for (let round = 0; round < 2; round++) {
    const { queue } = await all.get(sides, on('hangs'));
    await assert.rejects(hanging(queue), /test hangs has not answered for/);
    assert.notEqual(queue.closedFor, undefined);
  }
  await assert.rejects(all.get(sides, on('hangs')), /has not answered several calls/);
  assert.equal((await all.get(sides, on('other'))).queue, other.queue);
  all.stop();
});

test('a volume of a server that hangs can be left', { timeout: 20_000 }, async () => {
  const all = servers({ silentAfterMs: 1, tickMs: 1 });
  for (let round = 0; round < 2; round++) {
    const { queue } = await all.get(sides, on('hangs'));
    await assert.rejects(hanging(queue), /has not answered for/);
  }
  const { queue } = await all.get(sides, on('hangs'), { isLeaving: true });
  assert.equal(await queue.run(async () => 'left'), 'left');
  await assert.rejects(all.get(sides, on('hangs')), /has not answered several calls/);
  all.forget(sides, on('hangs'));
  assert.deepEqual(all.queues, []);
  all.stop();
});
