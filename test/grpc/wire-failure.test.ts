import assert from 'node:assert/strict';
import { constants } from 'node:os';
import { describe, test } from 'node:test';
import { KernelError } from '../../src/kernel/call/errno.ts';
import * as errors from '../../src/volume/errors.ts';
import { failureOf, WireServer } from './wire-server.ts';

const block = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;

describe('a call that fails', () => {
  const throwing = (error: unknown) =>
    WireServer.start({
      controller: {
        DeleteVolume: async () => {
          throw error;
        },
      },
    });

  for (const [type, code] of [
    [errors.InvalidArgument, 'INVALID_ARGUMENT'],
    [errors.NotFound, 'NOT_FOUND'],
    [errors.AlreadyExists, 'ALREADY_EXISTS'],
    [errors.FailedPrecondition, 'FAILED_PRECONDITION'],
    [errors.ResourceExhausted, 'RESOURCE_EXHAUSTED'],
    [errors.OutOfRange, 'OUT_OF_RANGE'],
    [errors.Aborted, 'ABORTED'],
    [errors.Unavailable, 'UNAVAILABLE'],
    [errors.DataLoss, 'DATA_LOSS'],
  ] as const) {
    test(`E01 ${type.name} arrives as ${code} with its message and without details`, async () => {
      await using server = await throwing(new type('Über 50 % of it: "a"\n\tand b.'));
      // The client asserts that there is a message and that there are no details.
      const error = await failureOf(server.client.controller.DeleteVolume({ volume_id: 'vol-1' }));
      assert.equal(error.code, code);
      assert.equal(error.message, 'Über 50 % of it: "a"\n\tand b.');
      const [line] = server.callLines;
      assert.deepEqual([line?.code, line?.['volume_id'], line?.['msg']], [code, 'vol-1', error.message]);
      assert.equal(line?.level, code === 'DATA_LOSS' ? 50 : 40);
    });
  }

  for (const [what, errno, code] of [
    ['the disk fails', constants.errno.EIO, 'UNAVAILABLE'],
    ['no space is left (CV20)', constants.errno.ENOSPC, 'RESOURCE_EXHAUSTED'],
    ['the kernel refuses what it was asked', constants.errno.EINVAL, 'INTERNAL'],
  ] as const) {
    test(`a KernelError arrives as ${code} where ${what}`, async () => {
      await using server = await throwing(new KernelError({ syscall: 'openat2', errno, path: '/pool/x' }));
      const error = await failureOf(server.client.controller.DeleteVolume({ volume_id: 'a' }));
      assert.equal(error.code, code);
      assert.match(error.message, /openat2.*\(E[A-Z]+\)/);
    });
  }

  for (const [what, bug] of [
    ['an Error', new TypeError('hunter2 is not iterable')],
    ['a string', 'hunter2'],
    ['nothing', undefined],
  ] as const) {
    test(`X03 a bug that throws ${what} tells the caller nothing, and the log where it is`, async () => {
      await using server = await throwing(bug);
      const error = await failureOf(server.client.controller.DeleteVolume({ volume_id: 'a' }));
      assert.equal(error.code, 'INTERNAL');
      assert.match(error.message, /^internal error/);
      assert.doesNotMatch(error.message, /hunter2|wire-call|\bat /);
      const [line] = server.callLines;
      assert.equal(line?.level, 50);
      assert.equal(line?.['stack'], bug instanceof Error ? bug.stack : `thrown, and not an Error: ${typeof bug}`);
      await server.client.identity.Probe({});
    });
  }

  test('an answer that cannot be written is a bug like any other', async () => {
    await using server = await WireServer.start({
      controller: { ListVolumes: async () => JSON.parse('{"entries": 7}') },
    });
    assert.equal((await failureOf(server.client.controller.ListVolumes({}))).code, 'INTERNAL');
  });
});

describe('secrets', () => {
  test('X01 X02 neither secrets nor mount flags show in the log or in errors, at any level', async () => {
    await using server = await WireServer.start(
      {
        node: {
          NodePublishVolume: async () => {
            throw new errors.FailedPrecondition('not staged');
          },
        },
      },
      { level: 'trace' },
    );
    const volume_capability = { ...block, block: null, mount: { mount_flags: ['password=hunter2'] } };
    const requests: Parameters<typeof server.client.node.NodePublishVolume>[0][] = [
      { volume_id: 'a', target_path: '/t', volume_capability, secrets: { key: 'hunter2' } },
      { volume_id: 'a', target_path: '/t', volume_capability: block, secrets: { key: 'hunter2'.repeat(1000) } },
      { volume_id: 'a', secrets: { key: 'hunter2' } },
    ];
    for (const request of requests) {
      const error = await failureOf(server.client.node.NodePublishVolume(request));
      assert.doesNotMatch(error.message, /hunter2/);
    }
    assert.doesNotMatch(JSON.stringify(server.log), /hunter2/);
    assert.match(JSON.stringify(server.log), /"secrets":"\[redacted\]"/);
    assert.match(JSON.stringify(server.log), /"mount_flags":"\[redacted\]"/);
  });

  test('requests are in the log at debug level only', async () => {
    await using server = await WireServer.start({ controller: { DeleteVolume: async () => ({}) } });
    await server.client.controller.DeleteVolume({ volume_id: 'a' });
    assert.ok(server.log.every((line) => line['request'] === undefined));
  });
});
