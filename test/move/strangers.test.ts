import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Leavings } from '../../src/move/nodes/leavings.ts';
import { Nodes } from '../../src/move/nodes/nodes.ts';
import { SnapshotLeavings } from '../../src/move/nodes/snapshot-leavings.ts';
import { Strangers } from '../../src/move/nodes/strangers.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { withTimeout } from '../../src/volume/flow/with-timeout.ts';
import { eventually } from '../support/eventually.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { Broker, blockSpec, filled, MovingNode, order } from './two-nodes.ts';

test('a program without a certificate that opens connections all the time keeps no node out', async () => {
  using scratch = new Scratch('strangers');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  await using b = await MovingNode.open(scratch, broker, 'b');
  await filled(a);
  const open = new Set<Socket>();
  let closed = 0;
  let isOn = true;
  const openOne = () => {
    if (!isOn) return;
    const socket = connect(a.port, '127.0.0.1');
    open.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      closed++;
      open.delete(socket);
      setTimeout(openOne, 20);
    });
  };
  try {
    for (let count = 0; count < 400; count++) openOne();
    await eventually(() => assert.ok(closed > 400));
    await order(a, b, blockSpec.id);
    assert.equal((await b.ended(blockSpec.id)).job.state, 'done');
  } finally {
    isOn = false;
    for (const socket of open) socket.destroy();
  }
});

test('the oldest connection without a certificate is closed, first one of the same address', async () => {
  const strangers = new Strangers({ all: 3, ofAddress: 2 });
  const server = createServer((socket) => strangers.come(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  const isOpen = async (expected: readonly boolean[]) =>
    eventually(() =>
      assert.deepEqual(
        sockets.map(({ closed }) => !closed),
        expected,
      ),
    );
  const come = async (localAddress: string) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    sockets.push(socket);
    const accepted = once(server, 'connection');
    await once(socket, 'connect');
    const [other] = await accepted;
    socket.resume();
    return other;
  };
  await come('127.0.0.1');
  strangers.showedCertificate(await come('127.0.0.1'));
  await come('127.0.0.1');
  await isOpen([true, true, true]);
  await come('127.0.0.1');
  await isOpen([false, true, true, true]);
  await come('127.0.0.2');
  await come('127.0.0.3');
  await isOpen([false, true, false, true, true, true]);
  for (const socket of sockets) socket.destroy();
  server.close();
});

test('the port closes at once, also if a program has opened a connection and shows no certificate', async () => {
  using scratch = new Scratch('strangers');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  const socket = connect(a.port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    const ended = once(socket, 'close');
    socket.resume();
    assert.notEqual(await withTimeout(5_000, a.nodes.close()), 'late');
    await ended;
  } finally {
    socket.destroy();
  }
});

test('a port that was taken when the first certificate came is opened by the next one', async () => {
  using scratch = new Scratch('strangers');
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const [objects, pools] = [new ObjectQueue(), new Pools(new Map(), 'data')];
  const queue = new DiskQueue('data', 1);
  const leavings = new Leavings({
    ...{ pools, objects, queue, dataDirectory: scratch.path, log: quiet },
    isMovingHere: () => false,
  });
  const snapshotLeavings = new SnapshotLeavings({
    ...{ pools, objects, queue, dataDirectory: scratch.path, log: quiet },
    areComing: () => false,
    isLeaving: () => false,
  });
  const listen = { host: '127.0.0.1', port };
  const nodes = new Nodes({ listen, leavings, snapshotLeavings, objects, log: quiet });
  const broker = new Broker();
  await assert.rejects(nodes.identify(broker.identity('a')), { code: 'EADDRINUSE' });
  other.close();
  await once(other, 'close');
  assert.equal(await nodes.identify(broker.identity('a')), port);
  await nodes.close();
});
