import assert from 'node:assert/strict';
import { once } from 'node:events';
import { constants as http2Constants, type OutgoingHttpHeaders } from 'node:http2';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import { decode, encode, methodsOf } from '../../src/csi/contract.ts';
import type { GetMetadataAllocatedResponse, SnapshotMetadataHandlers } from '../../src/csi/generated/types.ts';
import type { Draft, StreamContext } from '../../src/csi/handler.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { CallError } from '../support/client.ts';
import { fails } from './controller-driver.ts';
import { framed, openSession, startRequest } from './wire-http2.ts';
import { until, WireServer, type WireServerOptions } from './wire-server.ts';

const request = { snapshot_id: 'snap-1' };
const [method] = methodsOf('csi.v1.SnapshotMetadata').filter(({ name }) => name === 'GetMetadataAllocated');
assert.ok(method);
const { path, requestType, responseType } = method;

/** A message that can be told from others by its number. */
function numbered(number: number, ranges = 1): Draft<GetMetadataAllocatedResponse> {
  return {
    block_metadata_type: 'VARIABLE_LENGTH',
    volume_capacity_bytes: BigInt(number),
    block_metadata: Array.from({ length: ranges }, (_, index) => ({
      byte_offset: BigInt(index),
      size_bytes: 1n,
    })),
  };
}

/** A server whose GetMetadataAllocated is this, and what became of the last call of it. */
async function serverFor(
  messages: (context: StreamContext) => AsyncIterable<Draft<GetMetadataAllocatedResponse>>,
  options?: WireServerOptions,
) {
  const seen = { sent: 0, ended: false, context: undefined as StreamContext | undefined };
  const snapshotMetadata: SnapshotMetadataHandlers = {
    async *GetMetadataAllocated(_, context) {
      Object.assign(seen, { sent: 0, ended: false, context });
      try {
        for await (const message of messages(context)) {
          seen.sent++;
          yield message;
        }
      } finally {
        seen.ended = true;
      }
    },
  };
  return { server: await WireServer.start({ snapshotMetadata }, options), seen };
}

/** 50 KB each, until nobody wants more. */
async function* endless(): AsyncIterable<Draft<GetMetadataAllocatedResponse>> {
  for (let number = 0; ; number++) yield numbered(number, 6000);
}

/** The call as @grpc/grpc-js makes it. It reads ahead, whether anybody listens or not. */
function openStream(t: TestContext, { socketPath }: WireServer) {
  const client = new grpc.Client(`unix:${socketPath}`, grpc.credentials.createInsecure());
  t.after(() => client.close());
  const stream = client.makeServerStreamRequest(
    path,
    (message: object) => encode(requestType, message),
    (bytes: Buffer) => decode<GetMetadataAllocatedResponse>(responseType, bytes),
    request,
    {},
  );
  stream.on('error', () => undefined);
  return stream;
}

/** The call as bytes, of which nothing is read before somebody listens. */
function openRaw(t: TestContext, { socketPath }: WireServer, headers: OutgoingHttpHeaders = {}) {
  const session = openSession(socketPath);
  t.after(() => session.destroy());
  const stream = startRequest(session, { path, body: Buffer.alloc(0), headers });
  stream.end(framed(encode(requestType, request)));
  return { session, stream };
}

/** The messages in what a call brought. */
function unframed(bytes: Buffer): GetMetadataAllocatedResponse[] {
  const messages: GetMetadataAllocatedResponse[] = [];
  for (let at = 0; at < bytes.length; ) {
    const endsAt = at + 5 + bytes.readUInt32BE(at + 1);
    messages.push(decode(responseType, bytes.subarray(at + 5, endsAt)));
    at = endsAt;
  }
  return messages;
}

/** Waits until the handler is not asked for more any more. */
async function stalled(seen: { readonly sent: number }): Promise<void> {
  for (let sent = -1; sent !== seen.sent; await delay(100)) sent = seen.sent;
}

describe('a stream', () => {
  test('brings all messages in order, ends in order, and has one line in the log', async () => {
    const { server } = await serverFor(async function* ({ note }) {
      for (let number = 0; number < 100; number++) yield numbered(number);
      note({ pool: 'fast' });
    });
    await using _server = server;
    const messages = await server.client.snapshotMetadata.GetMetadataAllocated(request);
    assert.deepEqual(
      messages.map(({ volume_capacity_bytes }) => Number(volume_capacity_bytes)),
      Array.from({ length: 100 }, (_, index) => index),
    );
    assert.equal(server.log.length, 1);
    const { rpc, code, pool, level } = server.log[0] ?? assert.fail();
    assert.deepEqual({ rpc, code, pool, level }, { rpc: 'GetMetadataAllocated', code: 'OK', pool: 'fast', level: 30 });
  });

  test('SM14: may have no message at all', async () => {
    const { server } = await serverFor(async function* () {});
    await using _server = server;
    assert.deepEqual(await server.client.snapshotMetadata.GetMetadataAllocated(request), []);
  });

  test('SM01 E02: is refused before the handler hears of it: missing ids, numbers below zero, garbage', async () => {
    const { server, seen } = await serverFor(endless);
    await using _server = server;
    const { GetMetadataAllocated, GetMetadataDelta } = server.client.snapshotMetadata;
    await fails(GetMetadataAllocated({}), 'INVALID_ARGUMENT', /snapshot_id/);
    await fails(GetMetadataAllocated({ ...request, max_results: -1 }), 'INVALID_ARGUMENT', /max_results/);
    await fails(GetMetadataAllocated({ snapshot_id: 'x'.repeat(129) }), 'INVALID_ARGUMENT', /snapshot_id/);
    await fails(GetMetadataDelta({ target_snapshot_id: 'snap-1' }), 'UNIMPLEMENTED');
    const session = openSession(server.socketPath);
    const stream = startRequest(session, { path, body: Buffer.alloc(0) });
    stream.end(framed(Buffer.from([0x0a, 0xff])));
    const [headers] = await once(stream, 'response');
    assert.equal(headers['grpc-status'], `${grpc.status.INVALID_ARGUMENT}`);
    session.destroy();
    assert.equal(seen.context, undefined);
  });

  test('SM12: that fails on its way ends with the error, after what was sent', async (t) => {
    const { server } = await serverFor(async function* () {
      yield numbered(1);
      yield numbered(2);
      throw new Unavailable('the disk is gone');
    });
    await using _server = server;
    const stream = openStream(t, server);
    const received: unknown[] = [];
    stream.on('data', ({ volume_capacity_bytes }) => received.push(volume_capacity_bytes));
    const status = await new Promise<grpc.StatusObject>((resolve) => stream.once('status', resolve));
    assert.deepEqual(received, [1n, 2n]);
    assert.equal(status.code, grpc.status.UNAVAILABLE);
    assert.equal(status.details, 'the disk is gone');
    assert.equal(server.callLines[0]?.code, 'UNAVAILABLE');
  });

  test('SM12 X03: a bug is an error too; the caller is told nothing of it, the log all', async () => {
    const { server } = await serverFor(async function* () {
      yield numbered(1);
      throw new TypeError('cannot read secret');
    });
    await using _server = server;
    await fails(server.client.snapshotMetadata.GetMetadataAllocated(request), 'INTERNAL', /^(?!.*secret)/);
    assert.match(`${server.callLines[0]?.['stack']}`, /cannot read secret/);
  });

  test('ends with UNAVAILABLE when the driver stops: it can be gone on with', async () => {
    let ready = true;
    const ranges = async function* () {
      yield numbered(1);
      ready = false;
      yield numbered(2);
    };
    const { server, seen } = await serverFor(ranges, { ready: () => ready });
    await using _server = server;
    await fails(server.client.snapshotMetadata.GetMetadataAllocated(request), 'UNAVAILABLE', /stopping/);
    assert.equal(seen.ended, true);
  });
});

describe('SM13: a slow client', () => {
  test('is waited for: no more is made than a few messages, and it gets all of them once it reads', async (t) => {
    const count = 200;
    const { server, seen } = await serverFor(async function* () {
      for (let number = 0; number < count; number++) yield numbered(number, 6000);
    });
    await using _server = server;
    const { stream } = openRaw(t, server);
    await until(() => seen.sent > 0);
    await stalled(seen);
    assert.ok(seen.sent < 50, `${seen.sent} messages were made ahead`);
    const received: Buffer[] = [];
    for await (const bytes of stream) received.push(bytes);
    assert.deepEqual(
      unframed(Buffer.concat(received)).map(({ volume_capacity_bytes }) => Number(volume_capacity_bytes)),
      Array.from({ length: count }, (_, index) => index),
    );
    assert.equal(seen.ended, true);
  });

  test('that hangs up ends the work', async (t) => {
    const { server, seen } = await serverFor(endless);
    await using _server = server;
    const { stream } = openRaw(t, server);
    await until(() => seen.sent > 0);
    await stalled(seen);
    stream.close(http2Constants.NGHTTP2_CANCEL);
    await until(() => seen.ended);
    assert.equal(seen.context?.signal.aborted, true);
    await until(() => server.callLines.length > 0);
    const { code, client, level } = server.callLines[0] ?? assert.fail();
    assert.deepEqual({ code, client, level }, { code: 'CANCELLED', client: 'gone', level: 30 });
  });

  test('that does not read is left when the driver stops, and the log says why', async (t) => {
    const stop = new AbortController();
    const options = { ready: () => !stop.signal.aborted, stopping: stop.signal };
    const { server, seen } = await serverFor(endless, options);
    await using _server = server;
    openRaw(t, server);
    await until(() => seen.sent > 0);
    await stalled(seen);
    stop.abort();
    await until(() => seen.ended && server.callLines.length > 0);
    assert.equal(server.callLines[0]?.code, 'UNAVAILABLE');
  });

  test('whose connection breaks ends the work', async (t) => {
    const { server, seen } = await serverFor(endless);
    await using _server = server;
    const { session } = openRaw(t, server);
    await until(() => seen.sent > 0);
    await stalled(seen);
    session.destroy();
    await until(() => seen.ended);
  });

  test('T02: whose time is up ends the work', async () => {
    const { server, seen } = await serverFor(endless);
    await using _server = server;
    const call = server.client.snapshotMetadata.GetMetadataAllocated(request, { deadlineMs: 200 });
    await assert.rejects(call, (error) => error instanceof CallError && error.code === 'DEADLINE_EXCEEDED');
    await until(() => seen.ended);
    assert.ok(seen.context?.deadline instanceof Date);
  });

  test('T02: that reads on after its time is up ends the work as well, and does no harm', async (t) => {
    const { server, seen } = await serverFor(endless);
    await using _server = server;
    const { session, stream } = openRaw(t, server, { 'grpc-timeout': '200m' });
    stream.resume();
    await until(() => seen.ended);
    session.destroy();
    await server.client.identity.Probe({});
  });

  test('that hangs up while the next message is being looked for ends the search', async (t) => {
    const { server, seen } = await serverFor(async function* ({ signal }) {
      yield numbered(1);
      await once(signal, 'abort');
      signal.throwIfAborted();
    });
    await using _server = server;
    const stream = openStream(t, server);
    stream.resume();
    await once(stream, 'data');
    stream.cancel();
    await until(() => seen.ended);
    await until(() => server.callLines.length > 0);
    assert.equal(server.callLines[0]?.code, 'CANCELLED');
  });

  test('that is gone hides no error from the log', async (t) => {
    const { server } = await serverFor(async function* ({ signal }) {
      yield numbered(1);
      await once(signal, 'abort');
      throw new Unavailable('the disk is gone');
    });
    await using _server = server;
    const stream = openStream(t, server);
    stream.resume();
    await once(stream, 'data');
    stream.cancel();
    await until(() => server.callLines.length > 0);
    const { code, client } = server.callLines[0] ?? assert.fail();
    assert.deepEqual({ code, client }, { code: 'UNAVAILABLE', client: 'gone' });
  });
});
