import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { askServer, hasStatd, type ReachedServer, type UnreachedServer } from './server.ts';

type Answer = ReachedServer | UnreachedServer;

/** Asks a server that does this with each connection. */
async function ask(serve: (socket: Socket) => void, { timeoutMs = 20_000 } = {}): Promise<Answer> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    serve(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    return await askServer({ host: '127.0.0.1', port }, timeoutMs);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

/** Answers a call with a reply of these words. */
function answering(...words: readonly number[]): (socket: Socket) => void {
  return (socket) =>
    socket.once('data', (call: Buffer) => {
      const reply = Buffer.alloc(12 + 4 * words.length);
      reply.writeUInt32BE((0x8000_0000 | (reply.length - 4)) >>> 0, 0);
      call.copy(reply, 4, 4, 8);
      reply.writeUInt32BE(1, 8);
      for (const [index, word] of words.entries()) reply.writeUInt32BE(word, 12 + 4 * index);
      // In two pieces, as a network may bring it.
      socket.write(reply.subarray(0, 10));
      socket.write(reply.subarray(10));
    });
}

test('a server that answers is reached, and sees this machine by an address', async () => {
  assert.deepEqual(await ask(answering(0, 0, 0, 0)), { address: '127.0.0.1', clientAddress: '127.0.0.1' });
});

test('rpc.statd is found by rpcbind, and is not there without that', async () => {
  const asked = async (serve: (socket: Socket) => void) => {
    const server = createServer(serve).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const found = await hasStatd((server.address() as AddressInfo).port);
    server.close();
    return found;
  };
  assert.equal(await asked(answering(0, 0, 0, 0, 33_333)), true);
  assert.equal(await asked(answering(0, 0, 0, 0, 0)), false);
  assert.equal(await asked((socket) => socket.destroy()), false);
});

test('a server that cannot be used says why', async () => {
  const whyOf = (answer: Answer) => ('why' in answer ? answer.why : 'reached');
  assert.match(whyOf(await ask(answering(0, 0, 0, 2, 2, 3))), /^does not serve NFS 4: it has 2 to 3$/);
  assert.match(whyOf(await ask((socket) => socket.end())), /^has something else than an NFS server at port \d+$/);
  assert.match(whyOf(await ask((socket) => socket.write('HTTP/1.1 400\r\n\r\n'))), /^has something else/);
  const silent = await ask(() => undefined, { timeoutMs: 50 });
  assert.match(whyOf(silent), /^takes connections, and does not answer at port \d+ \(1 s\)$/);
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as AddressInfo;
  closed.close();
  await once(closed, 'close');
  assert.match(
    whyOf(await askServer({ host: '127.0.0.1', port }, 20_000)),
    /^cannot be reached at port \d+ \(ECONNREFUSED\)$/,
  );
  assert.match(whyOf(await askServer({ host: 'no-such-server.invalid', port }, 20_000)), /^has a name that /);
});
