import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { contract, encode } from '../../src/csi/contract.ts';
import { framed, rawCall } from '../grpc/wire-http2.ts';
import type { DriverClient } from '../support/client.ts';
import { DriverProcess } from '../support/driver.ts';
import { preface, settings } from '../support/http2-frames.ts';
import { Scratch } from '../support/scratch.ts';
import { assertAnswers } from './answers.ts';
import { howToRepeat, times, withoutShrinking } from './runs.ts';
import { flood, open } from './sockets.ts';
import { hostileString } from './strings.ts';

let scratch: Scratch;
let driver: DriverProcess;
let client: DriverClient;
let registrationSocket: string;
let adminSocket: string;
before(async () => {
  scratch = new Scratch('hostile-doors');
  registrationSocket = scratch.join('holdfast-reg.sock');
  adminSocket = scratch.join('data', 'admin.sock');
  driver = await DriverProcess.start(scratch, {
    config: `pools: { default: { directory: ${scratch.join('pool')}, undelete: 1h } }`,
    environment: { HOLDFAST_REGISTRATION_SOCKET: registrationSocket },
  });
  await driver.logged('listening for the kubelet');
  await driver.logged('listening for the operator');
  client = driver.connect();
});
after(async () => {
  client.close();
  await driver[Symbol.asyncDispose]();
  scratch[Symbol.dispose]();
});

const assertAlive = () => assertAnswers(driver, client);

const garbage = fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes));

describe("the kubelet's registration socket", () => {
  test('any message', async (t) => {
    t.diagnostic(howToRepeat);
    const type = contract.lookupType('pluginregistration.RegistrationStatus');
    const status = fc
      .record({ plugin_registered: fc.boolean(), error: hostileString })
      .map((message) => encode(type, message));
    const property = fc.asyncProperty(
      fc.oneof(garbage, status),
      fc.constantFrom('GetInfo', 'NotifyRegistrationStatus', 'Nothing'),
      async (bytes, rpc) => {
        const path = `/pluginregistration.Registration/${rpc}`;
        const { grpcStatus, message } = await rawCall(registrationSocket, { path, body: framed(bytes) });
        assert.ok(['0', '3', '12'].includes(grpcStatus ?? ''), `${grpcStatus}: ${message}`);
        if (grpcStatus !== '0') assert.notEqual(message ?? '', '');
      },
    );
    await fc.assert(property, withoutShrinking(200));
    await assertAlive();
  });

  test('any bytes', async () => {
    const property = fc.asyncProperty(garbage, async (bytes) => {
      await flood(registrationSocket, [bytes]);
      await flood(registrationSocket, [preface, settings, bytes]);
    });
    await fc.assert(property, withoutShrinking(100));
    await assertAlive();
  });
});

interface HttpAnswer {
  readonly status: number;
  readonly body: string;
}

async function ask(method: string, path: string, body: Buffer): Promise<HttpAnswer> {
  const call = request({ socketPath: adminSocket, method, path, agent: false });
  call.end(body);
  const [response] = await once(call, 'response');
  let text = '';
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode, body: text };
}

describe("the operator's socket", () => {
  test('any request is answered with a code and a message, and changes nothing', async (t) => {
    t.diagnostic(howToRepeat);
    const { controller } = client;
    const volume_capabilities = [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } as const }];
    const capacity_range = { required_bytes: 32n << 20n };
    const { volume } = await controller.CreateVolume({ name: 'kept', volume_capabilities, capacity_range });
    await controller.DeleteVolume({ volume_id: volume?.volume_id ?? '' });
    const before = await ask('GET', '/v1/trash', Buffer.alloc(0));
    assert.equal(JSON.parse(before.body).volumes.length, 1);
    const id = hostileString.map((text) => encodeURIComponent(text).slice(0, 4000));
    const path = fc.oneof(
      id.map((text) => `/v1/trash/${text}/restore`),
      // Without an id it would be a wish to empty the trash.
      id.filter((text) => text !== '').map((text) => `/v1/trash/${text}`),
      id.map((text) => `/v1/volumes/${text}/holders`),
      id.map((text) => `/v1/volumes/${text}/release?to=${text}`),
      id.map((text) => `/v1/adoptions?pool=default&namespace=a&claim=b&path=${text}`),
      id.map((text) => `/v1/adoptions?pool=${text}&namespace=${text}&claim=${text}&path=/x&sizeBytes=${text}`),
      id.map((text) => `/${text}`),
      fc.constantFrom('/v1/trash?x', '/v1//trash', '/v1/trash/..', '//v1/trash', '/v1/trash/%2e%2e/restore', '*'),
    );
    const methods = fc.constantFrom('GET', 'POST', 'DELETE', 'PUT', 'PATCH', 'HEAD', 'OPTIONS');
    let count = 0;
    const property = fc.asyncProperty(methods, path, garbage, async (method, where, body) => {
      const answer = await ask(method, where, body);
      count++;
      assert.ok(answer.status >= 400 && answer.status < 600 && answer.status !== 500, `${method} ${where}`);
      if (method === 'HEAD') return;
      const { code, message } = JSON.parse(answer.body);
      assert.match(code, /^[A-Z_]+$/);
      assert.notEqual(message, '');
    });
    await fc.assert(property, withoutShrinking(400));
    assert.equal((await ask('GET', '/v1/trash', Buffer.alloc(0))).body, before.body);
    t.diagnostic(`${count} requests`);
    await assertAlive();
  });

  test('bytes that are not HTTP, headers without end, bodies without end, and silence', async () => {
    await fc.assert(
      fc.asyncProperty(garbage, async (bytes) => {
        await flood(adminSocket, [bytes]);
        await flood(adminSocket, [Buffer.from('GET /v1/trash HTTP/1.1\r\n'), bytes]);
      }),
      withoutShrinking(100),
    );
    const line = Buffer.from(`x-a: ${'a'.repeat(1000)}\r\n`);
    await flood(adminSocket, [Buffer.from('GET / HTTP/1.1\r\n'), ...Array<Buffer>(times(5000)).fill(line)]);
    await flood(adminSocket, [
      Buffer.from('POST /v1/trash HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n'),
      ...Array<Buffer>(2000).fill(
        Buffer.concat([Buffer.from('4000\r\n'), Buffer.alloc(0x4000, 0x61), Buffer.from('\r\n')]),
      ),
      Buffer.from('0\r\n\r\n'),
    ]);
    const silent = await Promise.all(Array.from({ length: 200 }, () => open(adminSocket)));
    await assertAlive();
    assert.equal((await ask('GET', '/v1/trash', Buffer.alloc(0))).status, 200);
    for (const socket of silent) socket.destroy();
  });
});
