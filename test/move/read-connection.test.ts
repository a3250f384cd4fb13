import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { createServer, type TLSSocket } from 'node:tls';
import { peerName } from '../../src/move/nodes/names.ts';
import { ReadConnection } from '../../src/move/nodes/read-connection.ts';
import { switchingProtocols } from '../../src/move/nodes/wire.ts';
import { MoveEnded, NotConnected } from '../../src/move/source.ts';
import { eventually } from '../support/eventually.ts';
import { Broker } from './two-nodes.ts';

const mib = 1 << 20;

/** A source that does something else with a connection than ours. */
async function sourceThat(t: TestContext, answers: (socket: TLSSocket) => void) {
  const broker = new Broker();
  const [a, b] = [broker.identity('a'), broker.identity('b')];
  const server = createServer({ cert: a.certificate, key: a.key, ca: a.authorities, requestCert: true }, (socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => answers(socket));
    t.after(() => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const secure = { cert: b.certificate, key: b.key, ca: b.authorities, servername: peerName('a') };
  return (signal = new AbortController().signal) =>
    ReadConnection.open({ host: '127.0.0.1', port, secure, path: '/', signal, title: 'node a' });
}

describe('a connection for the bytes of a volume', () => {
  test('has them in order, in pieces of any size', async (t) => {
    const bytes = Buffer.from(Array.from({ length: mib }, (_, index) => (index * 7919) >> 8));
    const open = await sourceThat(t, (socket) => socket.end(Buffer.concat([switchingProtocols, bytes])));
    using connection = await open();
    const found: Buffer[] = [];
    for (let left = mib, size = 1; left > 0; size = size * 3 + 1) {
      const memory = Buffer.alloc(Math.min(left, size));
      await connection.read(memory);
      found.push(memory);
      left -= memory.length;
    }
    assert.ok(Buffer.concat(found).equals(bytes));
    await assert.rejects(connection.read(Buffer.alloc(1)), { constructor: NotConnected });
  });

  test('of a source that sends faster than the target takes: it has to wait', async (t) => {
    const all = 128;
    // As the kernel has taken them.
    let sent = 0;
    const open = await sourceThat(t, (socket) => {
      socket.write(switchingProtocols);
      const more = () => {
        if (sent++ < all) socket.write(Buffer.alloc(mib, sent), more);
      };
      more();
    });
    using connection = await open();
    const memory = Buffer.alloc(mib);
    await connection.read(memory);
    let [before, same] = [0, 0];
    await eventually(() => {
      same = sent === before ? same + 1 : 0;
      before = sent;
      assert.ok(same >= 20);
    });
    assert.ok(sent < all / 2, `${sent}`);
    for (let piece = 2; piece <= all; piece++) {
      await connection.read(memory);
      assert.ok(memory.equals(Buffer.alloc(mib, piece)));
    }
  });

  test('with a driver of another version is none: the move waits', async (t) => {
    const open = await sourceThat(t, (socket) => socket.end(`HTTP/1.1 409 Conflict\r\n\r\n${'x'.repeat(200)}`));
    await assert.rejects(open(), { constructor: NotConnected, message: /has another version of the driver/ });
  });

  test('that is refused has the reason of the source, in whatever parts it comes', async (t) => {
    const body = JSON.stringify({ code: 'FAILED_PRECONDITION', message: 'the move was cancelled.', reason: 'ended' });
    const head = `HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    for (const partBytes of [1, 80, 4096]) {
      const open = await sourceThat(t, (socket) => {
        const answer = head + body;
        for (let at = 0; at < answer.length; at += partBytes) socket.write(answer.slice(at, at + partBytes));
      });
      await assert.rejects(open(), { constructor: MoveEnded, message: 'the move was cancelled.' });
    }
    for (const odd of [
      'x'.repeat(2_000),
      `Content-Length: 3\r\n\r\n${'x'.repeat(200)}`,
      'Content-Length: 99999\r\n\r\n',
    ]) {
      const open = await sourceThat(t, (socket) => socket.end(`HTTP/1.1 403 Forbidden\r\n${odd.padEnd(200)}`));
      await assert.rejects(open(), { constructor: NotConnected, message: /has another version of the driver/ });
    }
  });

  test('ends as its signal says', async (t) => {
    const open = await sourceThat(t, (socket) => socket.write(switchingProtocols));
    const ending = new AbortController();
    using connection = await open(ending.signal);
    const reading = connection.read(Buffer.alloc(1));
    ending.abort(new Error('cancelled'));
    await assert.rejects(reading, /cancelled/);
  });
});
