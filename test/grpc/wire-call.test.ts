import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CallContext } from '../../src/csi/call.ts';
import type * as wire from '../../src/csi/generated/types.ts';
import { failureOf, until, WireServer } from './wire-server.ts';

/** A promise and the way to settle it. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

const block = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;

describe('an RPC without a handler', () => {
  test('E05 G02 answers UNIMPLEMENTED, each of the 32, streams included', async () => {
    await using server = await WireServer.start();
    const { identity, controller, node, groupController, snapshotMetadata } = server.client;
    const services = { identity, controller, node, groupController, snapshotMetadata };
    let calls = 0;
    for (const [serviceName, service] of Object.entries(services)) {
      for (const [name, call] of Object.entries(service)) {
        calls++;
        if (name === 'Probe') continue;
        const error = await failureOf(call({}));
        assert.equal(error.code, 'UNIMPLEMENTED', `${serviceName} ${name}`);
        assert.equal(error.message, `${name} is not offered by this driver.`);
      }
    }
    assert.equal(calls, 32);
    assert.equal(server.callLines.filter((line) => line.code === 'UNIMPLEMENTED').length, 31);
  });
});

describe('a call that succeeds', () => {
  test('the handler gets all fields, the caller all fields of the answer', async () => {
    const requests: wire.CreateVolumeRequest[] = [];
    await using server = await WireServer.start({
      controller: {
        CreateVolume: async (request) => {
          requests.push(request);
          return { volume: { volume_id: 'vol-1', capacity_bytes: request.capacity_range?.required_bytes } };
        },
      },
    });
    const response = await server.client.controller.CreateVolume({
      name: 'ä'.repeat(64),
      capacity_range: { required_bytes: 2n ** 63n - 1n },
      volume_capabilities: [block],
    });
    assert.deepEqual(response.volume, {
      capacity_bytes: 2n ** 63n - 1n,
      volume_id: 'vol-1',
      volume_context: {},
      content_source: null,
      accessible_topology: [],
    });
    assert.deepEqual(requests[0]?.parameters, {});
    assert.equal(requests[0]?.accessibility_requirements, null);
    assert.equal(requests[0]?.volume_capabilities[0]?.access_type, 'block');
  });

  test('has one line in the log: RPC, volume id, what the handler noted, code and milliseconds', async () => {
    await using server = await WireServer.start({
      node: {
        NodeUnpublishVolume: async (_, { note }) => {
          note({ pool: 'fast' });
          return {};
        },
      },
    });
    await server.client.node.NodeUnpublishVolume({ volume_id: 'vol-1', target_path: '/t' });
    assert.equal(server.log.length, 1);
    const { rpc, volume_id, pool, code, ms, level } = server.log[0] ?? assert.fail();
    assert.deepEqual(
      { rpc, volume_id, pool, code, level },
      {
        rpc: 'NodeUnpublishVolume',
        volume_id: 'vol-1',
        pool: 'fast',
        code: 'OK',
        level: 30,
      },
    );
    assert.equal(typeof ms, 'number');
  });

  test('routine calls are silent above debug level while all is well', async () => {
    await using server = await WireServer.start({ node: { NodeGetInfo: async () => ({ node_id: 'n' }) } });
    await server.client.identity.Probe({});
    await server.client.node.NodeGetInfo({});
    assert.deepEqual(server.log, []);
  });
});

describe('the order of checks', () => {
  test('required fields before limits, limits before the handler', async () => {
    let calls = 0;
    await using server = await WireServer.start({
      controller: {
        CreateVolume: async () => {
          calls++;
          return {};
        },
      },
    });
    const tooLong = '€'.repeat(43);
    const { controller } = server.client;
    assert.match((await failureOf(controller.CreateVolume({ name: tooLong }))).message, /needs volume_capabilities/);
    const error = await failureOf(controller.CreateVolume({ name: tooLong, volume_capabilities: [block] }));
    assert.equal(error.code, 'INVALID_ARGUMENT');
    assert.match(error.message, /^name is longer than 128 bytes/);
    assert.equal(calls, 0);
    await controller.CreateVolume({ name: tooLong.slice(1), volume_capabilities: [block] });
    assert.equal(calls, 1);
  });

  test('a driver that is stopping answers UNAVAILABLE, but for Identity, and UNIMPLEMENTED comes first', async () => {
    let ready = true;
    await using server = await WireServer.start(
      { controller: { DeleteVolume: async () => ({}) } },
      { ready: () => ready },
    );
    await server.client.controller.DeleteVolume({ volume_id: 'a' });
    ready = false;
    assert.equal((await failureOf(server.client.controller.DeleteVolume({}))).code, 'UNAVAILABLE');
    assert.equal((await failureOf(server.client.controller.ListVolumes({}))).code, 'UNIMPLEMENTED');
    await server.client.identity.Probe({});
  });
});

describe('deadlines and cancellation', () => {
  /** A server with one slow call, and what became of it. */
  async function slowServer() {
    const { open, opened } = gate();
    const contexts: CallContext[] = [];
    const finished: string[] = [];
    const server = await WireServer.start({
      controller: {
        DeleteVolume: async ({ volume_id }, context) => {
          contexts.push(context);
          await opened;
          finished.push(volume_id);
          return {};
        },
      },
    });
    return { server, open, contexts, finished };
  }

  test('T02 the handler runs on after the client hung up, and its end is in the log', async () => {
    const { server, open, contexts, finished } = await slowServer();
    await using _server = server;
    const hangUp = new AbortController();
    const call = server.client.controller.DeleteVolume({ volume_id: 'a' }, { signal: hangUp.signal });
    await until(() => contexts.length === 1);
    hangUp.abort();
    assert.equal((await failureOf(call)).code, 'CANCELLED');
    assert.deepEqual(finished, []);
    await server.client.identity.Probe({});
    open();
    await until(() => server.callLines.length === 1);
    assert.deepEqual(finished, ['a']);
    assert.equal(server.callLines[0]?.code, 'OK');
    assert.equal(server.callLines[0]?.['client'], 'gone');
  });

  test('T01 T02 the handler runs on after the deadline, which it was told', async () => {
    const { server, open, contexts, finished } = await slowServer();
    await using _server = server;
    await server.client.identity.Probe({});
    const call = server.client.controller.DeleteVolume({ volume_id: 'a' }, { deadlineMs: 500 });
    assert.equal((await failureOf(call)).code, 'DEADLINE_EXCEEDED');
    await until(() => contexts.length === 1);
    assert.ok(contexts[0]?.deadline instanceof Date);
    open();
    await until(() => server.callLines.length === 1);
    assert.deepEqual(finished, ['a']);
    assert.equal(server.callLines[0]?.code, 'OK');
  });
});

test('K05 500 calls at once are all answered, and a slow one holds up no other', async () => {
  const { open, opened } = gate();
  await using server = await WireServer.start({
    controller: {
      DeleteVolume: async ({ volume_id }) => {
        if (volume_id === 'slow') await opened;
        return {};
      },
    },
  });
  const { controller, identity } = server.client;
  const slow = controller.DeleteVolume({ volume_id: 'slow' });
  await Promise.all(Array.from({ length: 500 }, (_, index) => controller.DeleteVolume({ volume_id: `vol-${index}` })));
  await identity.Probe({});
  open();
  await slow;
  assert.equal(server.callLines.length, 501);
});
