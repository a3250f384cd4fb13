import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { NodeHarness, rejects } from '../support/node-harness.ts';
import { mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-info');
});
after(() => harness[Symbol.asyncDispose]());

test('NC01, NC02: the capabilities, the same each time', async () => {
  const expected = [
    'STAGE_UNSTAGE_VOLUME',
    'GET_VOLUME_STATS',
    'EXPAND_VOLUME',
    'VOLUME_CONDITION',
    'SINGLE_NODE_MULTI_WRITER',
  ];
  for (let i = 0; i < 2; i++) {
    const { capabilities } = await harness.node.NodeGetCapabilities({});
    assert.deepEqual(
      capabilities.map(({ rpc }) => rpc?.type),
      expected,
    );
  }
});

test('NI01, NI02, NI03: who the node is, the same each time', async () => {
  for (let i = 0; i < 2; i++) {
    assert.deepEqual(await harness.node.NodeGetInfo({}), {
      node_id: 'node',
      max_volumes_per_node: 0n,
      accessible_topology: { segments: { 'topology.holdfast.dev/node': 'node' } },
    });
  }
});

describe('required fields', () => {
  const volume_id = 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa';
  const volume_capability = mountCapability();
  const [staging_target_path, target_path, volume_path] = ['/s', '/t', '/v'];
  const cases: Record<string, () => Promise<unknown>> = {
    'ST01: stage without an id': () => harness.node.NodeStageVolume({ staging_target_path, volume_capability }),
    'ST02: stage without a path': () => harness.node.NodeStageVolume({ volume_id, volume_capability }),
    'ST03: stage without a capability': () => harness.node.NodeStageVolume({ volume_id, staging_target_path }),
    'US01: unstage without an id': () => harness.node.NodeUnstageVolume({ staging_target_path }),
    'US02: unstage without a path': () => harness.node.NodeUnstageVolume({ volume_id }),
    'PB01: publish without an id': () => harness.node.NodePublishVolume({ target_path, volume_capability }),
    'PB02: publish without a target': () => harness.node.NodePublishVolume({ volume_id, volume_capability }),
    'PB03: publish without a capability': () => harness.node.NodePublishVolume({ volume_id, target_path }),
    'UP01: unpublish without an id': () => harness.node.NodeUnpublishVolume({ target_path }),
    'UP02: unpublish without a target': () => harness.node.NodeUnpublishVolume({ volume_id }),
    'VS01: stats without an id': () => harness.node.NodeGetVolumeStats({ volume_path }),
    'VS02: stats without a path': () => harness.node.NodeGetVolumeStats({ volume_id }),
    'NE01: expand without an id': () => harness.node.NodeExpandVolume({ volume_path }),
    'NE02: expand without a path': () => harness.node.NodeExpandVolume({ volume_id }),
    'L13: no access mode': () =>
      harness.node.NodeStageVolume({ volume_id, staging_target_path, volume_capability: { mount: {} } }),
    'L14: no access type': () =>
      harness.node.NodeStageVolume({
        volume_id,
        staging_target_path,
        volume_capability: { access_mode: { mode: 'SINGLE_NODE_WRITER' } },
      }),
  };
  for (const [what, call] of Object.entries(cases)) {
    test(what, async () => {
      await rejects(call(), 'INVALID_ARGUMENT');
    });
  }
});
