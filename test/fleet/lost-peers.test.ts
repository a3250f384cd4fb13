import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { pino } from 'pino';
import { watchNodes } from '../../src/fleet/kubernetes/nodes.ts';
import { Dialer } from '../../src/fleet/node/dialer.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';
import { MemoryNode } from './support/memory-fleet.ts';

const token = 'a token that nobody reviews here';

/** What a dialer says, and who has been dialled, until it is stopped. */
async function dial(
  scratch: Scratch,
  hosts: readonly string[],
  whileRunning: (seen: { readonly said: object[]; readonly dialled: () => Promise<void> }) => Promise<void>,
): Promise<void> {
  const server = createServer((socket) => socket.on('error', () => undefined).end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const said: object[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void said.push(JSON.parse(line)) });
  writeFileSync(scratch.join('ca.crt'), '');
  const dialer = new Dialer({
    controllers: hosts.map((host) => ({ host, port })),
    authorityPath: scratch.join('ca.crt'),
    tokenPath: scratch.join('token'),
    nodeId: 'node',
    driverName: 'holdfast.csi.dev',
    driverVersion: '1',
    link: { ...new MemoryNode('node').served, log },
  });
  const running = dialer.run();
  try {
    await whileRunning({ said, dialled: async () => void (await once(server, 'connection')) });
  } finally {
    dialer.stop();
    await running;
    server.close();
  }
}

test('a controller whose name nobody knows keeps a node from no other one', { timeout: 60_000 }, async () => {
  using scratch = new Scratch('dialer');
  writeFileSync(scratch.join('token'), token);
  await dial(scratch, ['controller-b.invalid', '127.0.0.1'], async ({ dialled, said }) => {
    await dialled();
    const [first] = said as { host?: string; msg?: string }[];
    assert.equal(first?.host, 'controller-b.invalid');
  });
});

test('a token file that has no token is said once, and read again', { timeout: 60_000 }, async () => {
  using scratch = new Scratch('dialer');
  writeFileSync(scratch.join('token'), 'one line\nand another');
  await dial(scratch, ['127.0.0.1'], async ({ dialled, said }) => {
    await eventually(async () => assert.match(JSON.stringify(said), /token has no token in it/));
    writeFileSync(scratch.join('token'), token);
    await dialled();
    assert.equal(said.filter((line) => JSON.stringify(line).includes('has no token in it')).length, 1);
    assert.doesNotMatch(JSON.stringify(said), /and another/);
  });
});

test('a watch that goes silent is ended, and the nodes are listed again', { timeout: 60_000 }, async () => {
  using scratch = new Scratch('watch');
  await using double = await ApiDouble.start();
  const api = double.client(scratch);
  const stop = new AbortController();
  const found = Promise.withResolvers<void>();
  double.known.csiNodes.add('a');
  const watching = watchNodes({
    api,
    driverName: 'holdfast.csi.dev',
    log: pino({ level: 'silent' }),
    signal: stop.signal,
    watchLimitMs: 200,
    expect: (names) => {
      if (names.length === 1) double.known.csiNodes.add('b');
      if (names.includes('b')) found.resolve();
    },
  });
  // The double ends no watch unless it is told to.
  await found.promise;
  stop.abort();
  await watching;
  api.close();
});
