import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { status } from '@grpc/grpc-js';
import fc from 'fast-check';
import { contract, encode } from '../../src/csi/contract.ts';
import { framed, openSession, type RawAnswer, rawCall, startRequest } from './wire-http2.ts';
import { until, WireServer } from './wire-server.ts';

/*
 * Bytes that no honest client sends, to a server with the whole contract. After each of them it must still answer
 * Probe, to a client that was connected all the time and to a new one.
 */

const publishPath = '/csi.v1.Node/NodePublishVolume';
const publish = encode(contract.lookupType('csi.v1.NodePublishVolumeRequest'), {
  volume_id: 'vol-1',
  staging_target_path: '/staging',
  target_path: '/target',
  volume_capability: { mount: { mount_flags: ['noatime'] }, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
  readonly: true,
  secrets: { a: 'b' },
});

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);

let server: WireServer;
let release = () => {};
let held = Promise.resolve();
let started = 0;
let finished = 0;

before(async () => {
  server = await WireServer.start({
    node: {
      NodePublishVolume: async ({ volume_id }) => {
        started++;
        if (volume_id === 'held') await held;
        finished++;
        return {};
      },
    },
  });
});

beforeEach(() => {
  started = 0;
  finished = 0;
  held = new Promise((resolve) => {
    release = resolve;
  });
});

after(() => server[Symbol.asyncDispose]());

async function assertAlive(): Promise<void> {
  await server.client.identity.Probe({});
  const answer = await rawCall(server.socketPath, { path: '/csi.v1.Identity/Probe', body: framed(Buffer.alloc(0)) });
  assert.equal(answer.grpcStatus, '0');
}

async function call(body: Buffer, headers = {}, path = publishPath): Promise<RawAnswer> {
  const answer = await rawCall(server.socketPath, { path, body, headers });
  await assertAlive();
  return answer;
}

async function assertCode(code: keyof typeof status, body: Buffer, headers = {}): Promise<void> {
  const answer = await call(body, headers);
  assert.equal(answer.grpcStatus, String(status[code]), JSON.stringify(answer));
  assert.notEqual(answer.message, undefined);
}

/** Writes bytes to the socket as they are, and waits until the server closes it or has had its time to crash. */
async function throwBytes(...chunks: Buffer[]): Promise<void> {
  const socket = connect(server.socketPath);
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  for (const chunk of chunks) socket.write(chunk);
  socket.end();
  socket.resume();
  await once(socket, 'close');
}

describe('requests that are not what they should be', () => {
  test('garbage in place of a message is INVALID_ARGUMENT, and one line in the log', async () => {
    const lines = server.callLines.length;
    await assertCode('INVALID_ARGUMENT', framed(Buffer.from([0xff, 0xff, 0xff, 0xff])));
    const line = server.callLines[lines];
    assert.deepEqual([line?.rpc, line?.code, line?.level], ['NodePublishVolume', 'INVALID_ARGUMENT', 40]);
  });

  test('a message cut off anywhere never gets to the handler as a whole one, and harms nobody', async () => {
    for (let length = 0; length < publish.length; length++) {
      const answer = await rawCall(server.socketPath, { path: publishPath, body: framed(publish.subarray(0, length)) });
      assert.ok(answer.grpcStatus === '3' || answer.grpcStatus === '0', `${length}: ${JSON.stringify(answer)}`);
    }
    await assertAlive();
  });

  test('fields of the wrong wire type are unknown fields', async () => {
    // volume_id as a varint, as 64 bits, as 32 bits; readonly as a string; volume_capability as a number.
    for (const field of [
      [0x08, 1],
      [0x09, 1, 2, 3, 4, 5, 6, 7, 8],
      [0x0d, 1, 2, 3, 4],
      [0x32, 1, 0x61],
      [0x28, 7],
    ]) {
      await assertCode('INVALID_ARGUMENT', framed(Buffer.from(field)));
    }
    await assertCode('OK', framed(Buffer.concat([publish, Buffer.from([0x08, 1])])));
  });

  test('text that is not UTF-8 is INVALID_ARGUMENT', async () => {
    await assertCode('INVALID_ARGUMENT', framed(Buffer.concat([publish, Buffer.from([0x0a, 2, 0xc3, 0x28])])));
  });

  test('a million nested groups are INVALID_ARGUMENT', async () => {
    await assertCode('INVALID_ARGUMENT', framed(Buffer.alloc(1_000_000, 0x7b)));
  });

  test('mutated and random messages get an answer', async () => {
    const mutated = fc
      .tuple(fc.nat(publish.length - 1), fc.nat(255))
      .map(([index, byte]) =>
        Buffer.concat([publish.subarray(0, index), Buffer.of(byte), publish.subarray(index + 1)]),
      );
    const random = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes));
    await fc.assert(
      fc.asyncProperty(fc.oneof(mutated, random), async (bytes) => {
        const answer = await rawCall(server.socketPath, { path: publishPath, body: framed(bytes) });
        assert.ok(answer.grpcStatus === '3' || answer.grpcStatus === '0', JSON.stringify(answer));
      }),
      { numRuns: 200 },
    );
    await assertAlive();
  });

  test('an RPC that is not offered does not look at its request', async () => {
    const answer = await call(framed(Buffer.from([0xff])), {}, '/csi.v1.Controller/CreateVolume');
    assert.equal(answer.grpcStatus, String(status.UNIMPLEMENTED));
  });

  test('unknown services and methods are UNIMPLEMENTED', async () => {
    for (const path of [
      '/csi.v1.Node/NoSuch',
      '/csi.v0.Node/NodePublishVolume',
      '/',
      '/csi.v1.Node',
      `/${'x'.repeat(4000)}`,
    ]) {
      assert.equal((await call(framed(publish), {}, path)).grpcStatus, String(status.UNIMPLEMENTED), path);
    }
  });
});

describe('sizes', () => {
  test('a message of more than a megabyte is RESOURCE_EXHAUSTED', async () => {
    await assertCode('RESOURCE_EXHAUSTED', framed(Buffer.alloc((1 << 20) + 1)));
  });

  test('a message that claims 4 GB and brings nothing is RESOURCE_EXHAUSTED', async () => {
    await assertCode('RESOURCE_EXHAUSTED', framed(Buffer.alloc(0), { length: 0xffff_ffff }));
  });

  test('half a megabyte in one field is INVALID_ARGUMENT', async () => {
    const type = contract.lookupType('csi.v1.NodePublishVolumeRequest');
    const request = { volume_id: 'x'.repeat(1 << 19), target_path: '/t', volume_capability: { block: {} } };
    await assertCode('INVALID_ARGUMENT', framed(encode(type, request)));
  });

  test('a message that unpacks to 100 MB is RESOURCE_EXHAUSTED, and one that does not unpack is an error', async () => {
    const bomb = framed(gzipSync(Buffer.alloc(100 << 20)), { compressed: 1 });
    await assertCode('RESOURCE_EXHAUSTED', bomb, { 'grpc-encoding': 'gzip' });
    await assertCode('INTERNAL', framed(Buffer.from('no gzip'), { compressed: 1 }), { 'grpc-encoding': 'gzip' });
    await assertCode('UNIMPLEMENTED', framed(publish, { compressed: 1 }), { 'grpc-encoding': 'zstd' });
  });
});

describe('calls that are not calls', () => {
  test('no message, half a message, two messages', async () => {
    await assertCode('UNIMPLEMENTED', Buffer.alloc(0));
    await assertCode('UNIMPLEMENTED', framed(publish, { length: publish.length + 1 }));
    await assertCode('UNIMPLEMENTED', Buffer.concat([framed(publish), framed(publish)]));
    assert.equal(finished, 0);
  });

  test('headers with nonsense in them', async () => {
    await assertCode('INTERNAL', framed(publish), { 'grpc-timeout': 'soon' });
    assert.equal((await call(framed(publish), { 'content-type': 'text/plain' })).httpStatus, 415);
    await assertCode('OK', framed(publish), { 'x-trace-bin': '%%%', 'x-long': 'x'.repeat(8000) });
  });

  test('a header block that is too large closes the stream, not the server', async () => {
    const headers = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`x-${index}`, 'x'.repeat(300)]));
    assert.notEqual((await call(framed(publish), headers)).grpcStatus, '0');
  });
});

describe('bytes that are not HTTP/2', () => {
  const cases: Record<string, Buffer[]> = {
    'random bytes': [randomBytes(4096)],
    'HTTP/1': [Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')],
    'half a preface': [preface.subarray(0, 10)],
    'a preface and random bytes': [preface, settings, randomBytes(4096)],
    'a frame of 16 MB that never comes': [preface, settings, Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1])],
    'data for a stream that was never opened': [preface, settings, Buffer.from([0, 0, 1, 0, 0, 0, 0, 0, 1, 0])],
    'headers that are no HPACK': [preface, settings, Buffer.from([0, 0, 4, 1, 5, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff])],
    nothing: [],
  };
  for (const [what, chunks] of Object.entries(cases)) {
    test(what, async () => {
      await throwBytes(...chunks);
      await assertAlive();
    });
  }

  test('200 connections with garbage at once', async () => {
    await Promise.all(Array.from({ length: 200 }, () => throwBytes(preface, randomBytes(256))));
    await assertAlive();
  });
});

describe('clients that hang up', () => {
  const heldRequest = framed(
    encode(contract.lookupType('csi.v1.NodePublishVolumeRequest'), {
      volume_id: 'held',
      target_path: '/t',
      volume_capability: { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
    }),
  );

  test('T02 in the middle of a call: its work is done to the end', async () => {
    const session = openSession(server.socketPath);
    for (let count = 0; count < 20; count++)
      startRequest(session, { path: publishPath, body: heldRequest }).end(heldRequest);
    await until(() => started === 20);
    session.destroy();
    await assertAlive();
    assert.equal(finished, 0);
    release();
    await until(() => finished === 20);
    await assertAlive();
  });

  test('in the middle of a request: it never was one', async () => {
    const session = openSession(server.socketPath);
    const stream = startRequest(session, { path: publishPath, body: heldRequest });
    await new Promise((resolve) => stream.write(heldRequest.subarray(0, 8), resolve));
    session.destroy();
    await assertAlive();
    assert.equal(started, 0);
  });

  test('right after connecting, many times', async () => {
    for (let count = 0; count < 100; count++) {
      const socket = connect(server.socketPath);
      await once(socket, 'connect');
      socket.destroy();
    }
    await assertAlive();
  });

  test('a client that never reads its answers', async () => {
    const socket = connect(server.socketPath);
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.pause();
    socket.write(Buffer.concat([preface, settings]));
    const ping = Buffer.from([0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    for (let count = 0; count < 2000; count++) socket.write(ping);
    await assertAlive();
    socket.destroy();
    await assertAlive();
  });
});
