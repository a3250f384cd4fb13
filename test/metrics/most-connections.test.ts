import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { limitConnections } from '../../src/metrics/connections.ts';
import { eventually } from '../support/eventually.ts';

/** More than a socket takes that nobody reads. */
const large = Buffer.alloc(64 << 20);

/** A server for two connections at most: what is asked for as /large is answered at once, all else when the test says so. */
async function crowded() {
  const waiting: ServerResponse[] = [];
  const asked: string[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    asked.push(request.url ?? '');
    if (request.url === '/large') response.end(large);
    else waiting.push(response);
  });
  limitConnections(server, 2, (url) => url === '/healthz');
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  return {
    /** @param path what is asked for; undefined: nothing */
    async join(path?: string): Promise<Socket> {
      const socket = connect(port, '127.0.0.1').pause();
      sockets.push(socket);
      socket.on('error', () => undefined);
      const isKnown = once(server, 'connection');
      await Promise.all([once(socket, 'connect'), isKnown]);
      if (path === undefined) return socket;
      const count = asked.length;
      socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
      await eventually(() => assert.equal(asked.length, count + 1));
      return socket;
    },
    answerAll() {
      for (const response of waiting) response.end('answer');
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Asserts that the server has hung up. */
async function assertSentAway(socket: Socket): Promise<void> {
  socket.resume();
  await eventually(() => assert.ok(socket.destroyed || socket.readableEnded));
}

async function assertAnswered(socket: Socket): Promise<void> {
  let text = '';
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1');
  });
  socket.resume();
  await eventually(() => assert.match(text, /answer$|answer\r\n/));
}

describe('of more connections than there may be', () => {
  test('the first that came gives way, if all are the same', async () => {
    await using crowd = await crowded();
    const first = await crowd.join();
    const others = [await crowd.join('/slow'), await crowd.join('/slow')];
    await assertSentAway(first);
    crowd.answerAll();
    for (const other of others) await assertAnswered(other);
  });

  test('who has asked nothing gives way before who waits for an answer, whoever came first', async () => {
    await using crowd = await crowded();
    const waits = await crowd.join('/slow');
    const idle = await crowd.join();
    const last = await crowd.join('/slow');
    await assertSentAway(idle);
    crowd.answerAll();
    for (const each of [waits, last]) await assertAnswered(each);
  });

  test('who asks how the driver is stays, whoever asks for what else: a scraper gets no driver killed', async () => {
    await using crowd = await crowded();
    const probe = await crowd.join('/healthz');
    const scraper = await crowd.join('/slow');
    const last = await crowd.join('/slow');
    await assertSentAway(scraper);
    crowd.answerAll();
    for (const each of [probe, last]) await assertAnswered(each);
  });

  test('who does not take his answer gives way before who waits for his', async () => {
    await using crowd = await crowded();
    const waits = await crowd.join('/slow');
    const deaf = await crowd.join('/large');
    const last = await crowd.join('/slow');
    await assertSentAway(deaf);
    crowd.answerAll();
    for (const each of [waits, last]) await assertAnswered(each);
  });
});
