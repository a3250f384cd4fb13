import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { Unavailable } from '../../volume/errors.ts';
import type { NodeKind, NodeSide } from '../node-side.ts';
import { type ServerOptions, Servers } from './servers.ts';

const unused = () => assert.fail('not asked');
const log = { info() {}, warn() {}, error() {} };

function kind(open: NodeKind['open']): NodeKind {
  const traits = { detaching: 'automatic', accessModes: [] } as const;
  return { ...{ name: 'test', traits, namingKeys: [], keys: [] }, read: unused, shows: unused, serverOf: unused, open };
}

const side = (name: string): NodeSide => ({ name, attach: unused, attached: unused });
const sides = kind(async ({ server }) => side(server));

function servers(options: Partial<ServerOptions> = {}): Servers {
  return new Servers({ dataDirectory: '/', log, threadsEach: 1, maxServers: 2, ...options });
}

const hanging = (queue: DiskQueue) => queue.run(() => new Promise<void>(() => undefined));

test('each server has a queue, as far as there are threads for it', async () => {
  const all = servers();
  const [a, again, b, c, d] = await Promise.all(['a', 'a', 'b', 'c', 'd'].map((name) => all.get(sides, name)));
  assert.equal(a?.queue, again?.queue);
  assert.notEqual(a?.queue, b?.queue);
  assert.notEqual(c?.queue, b?.queue);
  assert.equal(c?.queue, d?.queue);
  all.stop();
});

test('a server that could not be opened is opened again', async () => {
  let tries = 0;
  const failing = kind(async ({ server }) => {
    if (++tries === 1) throw new Unavailable('no route');
    return side(server);
  });
  const all = servers();
  await assert.rejects(all.get(failing, 'a'), /no route/);
  assert.equal((await all.get(failing, 'a')).side.name, 'a');
  all.stop();
});

test('calls that hang are given up, others go on, and a server cannot take threads again and again', {
  timeout: 20_000,
}, async () => {
  const all = servers({ silentAfterMs: 1, tickMs: 1 });
  const other = await all.get(sides, 'other');
  for (let round = 0; round < 2; round++) {
    const { queue } = await all.get(sides, 'hangs');
    await assert.rejects(hanging(queue), /test hangs has not answered for/);
    assert.notEqual(queue.closedFor, undefined);
  }
  await assert.rejects(all.get(sides, 'hangs'), /has not answered several calls/);
  assert.equal((await all.get(sides, 'other')).queue, other.queue);
  all.stop();
});
