import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { encode, type Method, methodsOf } from '../../src/csi/contract.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { HostileNode } from './hostile-node.ts';
import { RawClient } from './raw-client.ts';

/*
 * Lists as long as a request can be, of different elements. A list that took the square of its length would keep the
 * driver for longer than the client waits.
 */

const writer = { access_mode: { mode: 'SINGLE_NODE_WRITER' } };
const mount = { ...writer, mount: { fs_type: 'ext4' } };
const volume_id = `vol-${'a'.repeat(26)}`;

function many<T>(count: number, element: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => element(index));
}

const place = (index: number) => ({ segments: { n: `${index}` } });

const requests: readonly (readonly [rpc: string, code: string, request: object])[] = [
  [
    'CreateVolume',
    'RESOURCE_EXHAUSTED',
    {
      name: 'v',
      volume_capabilities: [mount],
      accessibility_requirements: { requisite: many(30_000, place), preferred: many(30_000, place) },
    },
  ],
  [
    'CreateVolume',
    'RESOURCE_EXHAUSTED',
    { name: 'v', volume_capabilities: many(60_000, () => mount), capacity_range: { required_bytes: 2n ** 62n } },
  ],
  ['ValidateVolumeCapabilities', 'NOT_FOUND', { volume_id, volume_capabilities: many(60_000, () => mount) }],
  ['GetCapacity', 'OK', { volume_capabilities: many(60_000, () => mount) }],
  ['CreateVolumeGroupSnapshot', 'NOT_FOUND', { name: 'g', source_volume_ids: many(100_000, (index) => `v${index}`) }],
  ['DeleteVolumeGroupSnapshot', 'OK', { group_snapshot_id: 'g', snapshot_ids: many(100_000, (index) => `s${index}`) }],
  [
    'NodePublishVolume',
    'INVALID_ARGUMENT',
    { volume_id, target_path: '/x', volume_capability: { ...writer, mount: { mount_flags: many(200_000, () => '') } } },
  ],
  [
    'NodeStageVolume',
    'INVALID_ARGUMENT',
    {
      volume_id,
      staging_target_path: '/x',
      volume_capability: mount,
      secrets: Object.fromEntries(many(60_000, (index) => [`k${index}`, ''])),
    },
  ],
];

const services = ['Controller', 'GroupController', 'Node'];
const methods: ReadonlyMap<string, Method> = new Map(
  services.flatMap((service) => methodsOf(`csi.v1.${service}`)).map((method) => [method.name, method]),
);

describe('lists of many thousand elements', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  test('are answered in time, and leave nothing', async () => {
    await using hostile = await HostileNode.open(command);
    using client = new RawClient(hostile.node.socketPath);
    for (const [rpc, code, request] of requests) {
      const method = methods.get(rpc);
      assert.ok(method !== undefined);
      const bytes = encode(method.requestType, request);
      assert.equal((await client.call({ method, bytes })).code, code, `${rpc}, ${bytes.length} bytes`);
    }
    await hostile.checkEmpty();
    await hostile.stop();
  });
});
