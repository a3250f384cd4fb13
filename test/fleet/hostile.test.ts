import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import * as grpc from '@grpc/grpc-js';
import { contract, encode } from '../../src/csi/contract.ts';
import { linkMethod } from '../../src/fleet/link/grpc-pipe.ts';
import { serverName } from '../../src/fleet/tls/material.ts';
import { forgetPeak, peakMebibytes } from '../hostile/driver-memory.ts';
import { driverCommand } from '../support/driver.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';
import { ControllerProcess } from './support/controller-process.ts';
import { authorityIn, LinkedNode, volumeOn } from './support/fleet.ts';

const fromNode = contract.lookupType('holdfast.fleet.v1.FromNode');

/** A link by hand: what it was ended with. */
function link(
  controller: ControllerProcess,
  authority: string,
  token: string | undefined,
  messages: readonly object[] = [],
) {
  const client = new grpc.Client(`127.0.0.1:${controller.port}`, grpc.credentials.createSsl(Buffer.from(authority)), {
    'grpc.ssl_target_name_override': serverName,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_retries': 0,
  });
  const metadata = new grpc.Metadata();
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
  const bytes = (value: Buffer) => value;
  const stream = client.makeBidiStreamRequest(linkMethod, bytes, bytes, metadata);
  const answers: Buffer[] = [];
  const ended = new Promise<string>((resolve) => {
    stream.on('data', (answer: Buffer) => answers.push(answer));
    stream.on('error', (error: grpc.ServiceError) => {
      client.close();
      resolve(`${grpc.status[error.code]}: ${error.details}`);
    });
  });
  for (const message of messages) stream.write(Buffer.isBuffer(message) ? message : encode(fromNode, message));
  return { answers, ended, close: () => client.close() };
}

test('a controller whose port for nodes is taken ends, and says why', async () => {
  using scratch = new Scratch('taken-port');
  await using api = await ApiDouble.start();
  await using first = await ControllerProcess.start(scratch, api, 'first');
  const [program = '', ...command] = driverCommand;
  const env = {
    PATH: process.env['PATH'] ?? '',
    CSI_ENDPOINT: `unix://${scratch.join('second.sock')}`,
    HOLDFAST_API_SERVER: api.url,
    HOLDFAST_SERVICE_ACCOUNT_DIR: scratch.join('account'),
    HOLDFAST_LINK_ADDRESS: `127.0.0.1:${first.port}`,
  };
  const ended = promisify(execFile)(program, [...command, 'controller'], { env, timeout: 60_000 });
  await assert.rejects(ended, (error: { code?: unknown; stdout?: string; stderr?: string }) => {
    assert.equal(error.code, 1);
    assert.match(`${error.stdout}${error.stderr}`, /nodes cannot link.*EADDRINUSE|EADDRINUSE.*nodes cannot link/s);
    return true;
  });
});

describe('whoever comes to the port', () => {
  test('without a token that is good for the node, nobody is heard', async () => {
    using scratch = new Scratch('hostile-fleet');
    await using api = await ApiDouble.start();
    await using controller = await ControllerProcess.start(scratch, api, 'only');
    const authority = authorityIn(api);
    const hello = (node_id: string) => ({ hello: { node_id, driver_name: 'holdfast.csi.dev', protocol: 1 } });
    const account = 'system:serviceaccount:holdfast:other';
    const rows: readonly [string | undefined, RegExp][] = [
      [undefined, /^UNAUTHENTICATED: This is not a token/],
      ['garbage', /^UNAUTHENTICATED: This is not a token/],
      [api.token({ node: 'a', audience: 'api' }), /^UNAUTHENTICATED: The token is not for holdfast/],
      [
        api.token({ node: 'a', user: account }),
        /^UNAUTHENTICATED: The token is not of system:serviceaccount:holdfast:holdfast-node/,
      ],
      [api.token({}), /^UNAUTHENTICATED: The token is not bound to a pod on a node/],
      [api.token({ node: 'a', lifeSeconds: -1 }), /^UNAUTHENTICATED: The token has expired/],
      [`${api.token({ node: 'a' })}x`, /^UNAUTHENTICATED: Kubernetes does not know the token/],
    ];
    for (const [token, refusal] of rows) {
      assert.match(await link(controller, authority, token, [hello('a')]).ended, refusal);
    }
    const token = api.token({ node: 'a' });
    const wrong: readonly [object[], RegExp][] = [
      [[hello('b')], /^ABORTED: it speaks for "b" with the token of a/],
      [[{ beat: {} }], /sent no hello/],
      [[hello('a'), hello('a')], /said hello twice/],
      [[{ hello: { node_id: 'a', driver_name: 'other', protocol: 1 } }], /another driver/],
      [[Buffer.from([0xff, 0xff])], /invalid message/],
      [[hello('a'), { inventory: { revision: 2n } }], /change 2 of the inventory came after 0/],
      [[hello('a'), { inventory: { revision: 1n } }], /does not begin with its start/],
      [
        [hello('a'), { inventory: { revision: 1n, starts: true, put: [{ kind: 'VOLUME', id: '../x' }] } }],
        /cannot be the id/,
      ],
      [[hello('a'), { renewal: { token: api.token({ node: 'b' }) } }], /new token is invalid: it is one of node b/],
    ];
    for (const [messages, refusal] of wrong) {
      assert.match(await link(controller, authority, token, messages).ended, refusal);
    }
    assert.ok(!controller.output().includes(token), 'X03: no token in the log');
  });

  test('a node that answers what was not asked, and tells what it does not know, harms only itself', async () => {
    using scratch = new Scratch('hostile-fleet');
    await using api = await ApiDouble.start();
    for (const name of ['liar', 'node-a']) api.known.csiNodes.add(name);
    await using controller = await ControllerProcess.start(scratch, api, 'only');
    await using a = await LinkedNode.start(api, 'node-a', [controller]);
    await controller.logged('inventory complete', { node: a.name });
    using client = controller.connect();
    const { volume } = await client.controller.CreateVolume(volumeOn('node-a', 'pvc-1'));
    const id = volume?.volume_id ?? '';
    const put = [{ kind: 'VOLUME', id, name: 'pvc-1', pool: 'default' }];
    const liar = link(controller, authorityIn(api), api.token({ node: 'liar' }), [
      { hello: { node_id: 'liar', driver_name: 'holdfast.csi.dev', protocol: 99 } },
      { inventory: { revision: 1n, starts: true, complete: true, put } },
      { answer: { call: 12345n, code: 0 } },
      { part: { call: 12345n, response: Buffer.from('x') } },
      { capacity: { question: 77n, response: randomBytes(100) } },
    ]);
    await controller.logged('inventory complete', { node: 'liar' });
    const seen = await client.controller.ControllerGetVolume({ volume_id: id });
    assert.equal(seen.volume?.accessible_topology[0]?.segments['topology.holdfast.dev/node'], 'node-a');
    await client.controller.DeleteVolume({ volume_id: id });
    liar.close();
  });

  test('garbage and 5,000 connections: nodes that are linked notice nothing, and new ones get in', async () => {
    using scratch = new Scratch('hostile-fleet');
    await using api = await ApiDouble.start();
    for (const name of ['node-a', 'node-b']) api.known.csiNodes.add(name);
    await using controller = await ControllerProcess.start(scratch, api, 'only');
    await using a = await LinkedNode.start(api, 'node-a', [controller]);
    await controller.logged('inventory complete', { node: a.name });
    const before = peakMebibytes(controller.pid);
    forgetPeak(controller.pid);
    const sockets: Socket[] = [];
    for (let count = 0; count < 5_000; count++) {
      const options = { port: controller.port, host: '127.0.0.1', localAddress: `127.0.1.${count % 4}` };
      const socket =
        count % 50 === 0
          ? connectTls({ ...options, rejectUnauthorized: false, ALPNProtocols: ['h2'] })
          : connect(options);
      socket.on('error', () => undefined);
      if (count % 3 === 0) socket.write(randomBytes(64));
      sockets.push(socket);
      if (count % 200 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await using b = await LinkedNode.start(api, 'node-b', [controller]);
    await controller.logged('inventory complete', { node: b.name });
    using client = controller.connect();
    for (const node of ['node-a', 'node-b']) await client.controller.CreateVolume(volumeOn(node, `on-${node}`));
    for (const socket of sockets) socket.destroy();
    assert.equal(controller.log().filter(({ msg, node }) => msg === 'linked' && node === 'node-a').length, 1);
    const peak = peakMebibytes(controller.pid);
    assert.ok(peak < before + 150, `${peak} MiB, and ${before} before`);
  });
});
