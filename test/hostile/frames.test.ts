import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { framed, openSession, rawCall, startRequest } from '../grpc/wire-http2.ts';
import type { DriverClient } from '../support/client.ts';
import { DriverProcess } from '../support/driver.ts';
import { callHeaders, flags, frame, frameTypes, preface, settings } from '../support/http2-frames.ts';
import { Scratch } from '../support/scratch.ts';
import { assertAnswers } from './answers.ts';
import { forgetPeak, peakMebibytes } from './driver-memory.ts';
import { howToRepeat, times, withoutShrinking } from './runs.ts';
import { flood, open } from './sockets.ts';

/*
 * O06 and beyond: HTTP/2 that no client speaks, floods of what is cheap to send, and clients that take their time, at a
 * driver in a process of its own, whose memory is watched. After each of them it answers, to a client that has been
 * connected all the time.
 */

const probe = '/csi.v1.Identity/Probe';
const { continuation, data, headers, ping, priority, reset, window } = frameTypes;

let scratch: Scratch;
let driver: DriverProcess;
let client: DriverClient;
before(async () => {
  scratch = new Scratch('hostile-wire');
  driver = await DriverProcess.start(scratch, { config: `pools: { default: { directory: ${scratch.join('pool')} } }` });
  client = driver.connect();
});
after(async () => {
  client.close();
  await driver[Symbol.asyncDispose]();
  scratch[Symbol.dispose]();
});

const assertAlive = () => assertAnswers(driver, client);

/** More than this no flood may cost; an idle driver has 70 to 100. */
const mostMebibytes = 400;

function assertBounded(report: (text: string) => void, what: string): void {
  const mebibytes = peakMebibytes(driver.pid);
  report(`${what}: at most ${mebibytes} MiB`);
  assert.ok(mebibytes < mostMebibytes, `${mebibytes} MiB`);
  forgetPeak(driver.pid);
}

const payload = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.constantFrom(
    callHeaders(probe),
    callHeaders('/csi.v1.Node/NodeGetInfo'),
    framed(Buffer.alloc(0)),
    Buffer.alloc(8),
  ),
  fc.constant(Buffer.alloc(1000, 0x82)),
);
const anyFrame = fc.record(
  {
    type: fc.oneof({ weight: 9, arbitrary: fc.nat(9) }, { weight: 1, arbitrary: fc.nat(255) }),
    flags: fc.oneof(fc.constantFrom(0, 1, 4, 5, 8, 32), fc.nat(255)),
    stream: fc.constantFrom(0, 1, 2, 3, 5, 7, 2 ** 31 - 1, 2 ** 32 - 1),
    payload,
    length: fc.constantFrom(0, 1, 8, 16_385, 2 ** 24 - 1),
  },
  { requiredKeys: ['type', 'flags', 'stream', 'payload'] },
);

describe('frames', () => {
  test('any, in any order, on any stream, with lengths that lie', async (t) => {
    t.diagnostic(howToRepeat);
    let count = 0;
    const property = fc.asyncProperty(fc.array(anyFrame, { minLength: 1, maxLength: 20 }), async (frames) => {
      await flood(driver.socketPath, [preface, settings, ...frames.map(frame)]);
      count += frames.length;
      await assertAlive();
    });
    await fc.assert(property, withoutShrinking(400));
    assertBounded((text) => t.diagnostic(text), `${count} frames on ${times(400)} connections`);
  });

  test('a call that is cut off or garbled at any byte', async (t) => {
    const call = Buffer.concat([
      preface,
      settings,
      frame({ type: headers, flags: flags.endHeaders, stream: 1, payload: callHeaders(probe) }),
      frame({ type: data, flags: flags.endStream, stream: 1, payload: framed(Buffer.alloc(0)) }),
    ]);
    for (let at = 0; at < call.length; at++) {
      const garbled = Buffer.from(call);
      garbled[at] = randomBytes(1)[0] ?? 0;
      await flood(driver.socketPath, [call.subarray(0, at)]);
      await flood(driver.socketPath, [garbled]);
    }
    await assertAlive();
    t.diagnostic(`${2 * call.length} connections`);
  });
});

function* repeated(count: number, make: (index: number) => Uint8Array): Iterable<Uint8Array> {
  yield Buffer.concat([preface, settings]);
  for (let index = 0; index < count; index++) yield make(index);
}

const callFrame = (stream: number) =>
  frame({ type: headers, flags: flags.endHeaders, stream, payload: callHeaders(probe) });

const floods: Readonly<Record<string, (index: number) => Uint8Array>> = {
  'rapid reset: a call and its end': (index) =>
    Buffer.concat([
      callFrame(2 * index + 1),
      frame({ type: reset, stream: 2 * index + 1, payload: Buffer.of(0, 0, 0, 8) }),
    ]),
  'calls that never send a message': (index) => callFrame(2 * index + 1),
  pings: () => frame({ type: ping, stream: 0, payload: Buffer.alloc(8) }),
  settings: () => settings,
  'empty frames of data': (index) => (index === 0 ? callFrame(1) : frame({ type: data, stream: 1 })),
  'window updates': () => frame({ type: window, stream: 0, payload: Buffer.of(0, 0, 0, 1) }),
  priorities: (index) => frame({ type: priority, stream: 2 * index + 1, payload: Buffer.of(0, 0, 0, 0, 1) }),
  'a header that goes on and on': (index) =>
    frame({ type: index === 0 ? headers : continuation, stream: 1, payload: Buffer.alloc(16_000, 0x00) }),
  'a header of one byte, of which there are many': (index) =>
    index === 0
      ? frame({ type: headers, flags: flags.endHeaders, stream: 1, payload: largeHeader() })
      : frame({ type: headers, flags: flags.endHeaders, stream: 2 * index + 1, payload: Buffer.alloc(16_000, 0xbe) }),
};

/** Into the table of headers, where one byte names it from then on. */
function largeHeader(): Buffer {
  const length = Buffer.of(0x7f, 0x81, 0x1e);
  return Buffer.concat([callHeaders(probe), Buffer.of(0x40, 1, 0x78), length, Buffer.alloc(4000, 0x61)]);
}

describe('floods', () => {
  for (const [what, make] of Object.entries(floods)) {
    test(what, async (t) => {
      forgetPeak(driver.pid);
      const taken = await flood(driver.socketPath, repeated(times(20_000), make));
      await assertAlive();
      assertBounded((text) => t.diagnostic(text), `${taken} of ${times(20_000)} were taken`);
    });
  }

  test('messages that unpack to 100 MB, 20 at a time', async (t) => {
    forgetPeak(driver.pid);
    const bomb = framed(gzipSync(Buffer.alloc(100 << 20)), { compressed: 1 });
    const request = { path: probe, body: bomb, headers: { 'grpc-encoding': 'gzip' } };
    const answers = await Promise.all(Array.from({ length: 20 }, () => rawCall(driver.socketPath, request)));
    assert.deepEqual([...new Set(answers.map(({ grpcStatus }) => grpcStatus))], ['8']);
    await assertAlive();
    assertBounded((text) => t.diagnostic(text), '20 messages of 100 MB');
  });
});

describe('crowds', () => {
  test('5,000 calls at once, on one connection and on many', async (t) => {
    forgetPeak(driver.pid);
    const { controller, identity, node } = client;
    const kinds = [
      () => identity.Probe({}),
      () => controller.GetCapacity({}),
      () => controller.ListVolumes({}),
      () => node.NodeGetInfo({}),
      () => controller.DeleteVolume({ volume_id: `vol-${'a'.repeat(26)}` }),
    ];
    const calls = Array.from({ length: 5000 }, (_, index) => kinds[index % kinds.length]?.());
    const outcomes = await Promise.allSettled(calls);
    assert.deepEqual([...new Set(outcomes.map(({ status }) => status))], ['fulfilled']);
    await assertAlive();
    assertBounded((text) => t.diagnostic(text), '5,000 calls on one connection');

    const requests = Array.from({ length: 5000 }, () =>
      rawCall(driver.socketPath, { path: probe, body: framed(Buffer.alloc(0)) }),
    );
    const answers = await Promise.all(requests);
    // The kernel turns away whom the server has no time for yet (listen(2), backlog).
    const answered = answers.filter(({ grpcStatus }) => grpcStatus !== undefined);
    assert.deepEqual([...new Set(answered.map(({ grpcStatus }) => grpcStatus))], ['0']);
    await assertAlive();
    assertBounded((text) => t.diagnostic(text), `5,000 connections, ${answered.length} of them answered`);
  });

  test('a hundred that send one byte at a time', async () => {
    const call = Buffer.concat([
      preface,
      settings,
      frame({ type: headers, flags: flags.endHeaders, stream: 1, payload: callHeaders(probe) }),
      frame({ type: data, flags: flags.endStream, stream: 1, payload: framed(Buffer.alloc(0)) }),
    ]);
    const sockets = await Promise.all(Array.from({ length: 100 }, () => open(driver.socketPath)));
    const answers = sockets.map((socket) => once(socket, 'data'));
    for (const byte of call) {
      for (const socket of sockets) socket.write(Buffer.of(byte));
      await new Promise(setImmediate);
    }
    await Promise.all(answers);
    await assertAlive();
    for (const socket of sockets) socket.destroy();
  });

  test('connections that say nothing, stop halfway, or close one side', async () => {
    const silent = await Promise.all(Array.from({ length: 500 }, () => open(driver.socketPath)));
    const halves = await Promise.all(Array.from({ length: 100 }, () => open(driver.socketPath)));
    for (const socket of halves) {
      socket.write(Buffer.concat([preface, settings, callFrame(1)]));
      socket.end();
    }
    const session = openSession(driver.socketPath);
    const stuck = Array.from({ length: 50 }, () =>
      startRequest(session, { path: probe, body: Buffer.alloc(0) }).write(framed(Buffer.alloc(0)).subarray(0, 3)),
    );
    assert.equal(stuck.length, 50);
    await assertAlive();
    session.destroy();
    for (const socket of [...silent, ...halves]) socket.destroy();
    await assertAlive();
  });
});
