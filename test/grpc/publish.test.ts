import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import { CallError } from '../support/client.ts';
import { TestVolume } from '../support/life.ts';
import { block, create, fails, listIds, makeVolume, mebibyte, mount, nodeId, TestDriver } from './controller-driver.ts';
import { released } from './workload.ts';

type Publish = Draft<wire.ControllerPublishVolumeRequest>;

const required = { attach: 'required' } as const;
const noSuchVolume = volumeIdFor(nodeId, 'main', 'no such');
const ext4 = { capacity_range: { required_bytes: 32n * mebibyte }, volume_capabilities: [mount('ext4')] };

const publish = (driver: TestDriver, volume_id: string, changes: Publish = {}) =>
  driver.controller.ControllerPublishVolume({
    volume_id,
    node_id: nodeId,
    volume_capability: mount('ext4'),
    ...changes,
  });

const unpublish = (driver: TestDriver, volume_id: string, node_id = nodeId) =>
  driver.controller.ControllerUnpublishVolume({ volume_id, node_id });

/** Where the volume is published, by both RPCs that tell. */
async function publishedTo(driver: TestDriver, volume_id: string): Promise<string[]> {
  const { status } = await driver.controller.ControllerGetVolume({ volume_id });
  const { entries } = await driver.controller.ListVolumes({});
  const listed = entries.find(({ volume }) => volume?.volume_id === volume_id)?.status;
  assert.deepEqual(listed?.published_node_ids, status?.published_node_ids);
  return status?.published_node_ids ?? [];
}

describe('attach: required', () => {
  test('CC01 G02 G04: the capabilities for it are there, in every mode the same way', async () => {
    for (const expansion of ['node', 'controller'] as const) {
      await using driver = await TestDriver.start({ ...required, expansion });
      const { capabilities } = await driver.controller.ControllerGetCapabilities({});
      const types = capabilities.map(({ rpc }) => rpc?.type);
      for (const type of ['PUBLISH_UNPUBLISH_VOLUME', 'PUBLISH_READONLY', 'LIST_VOLUMES_PUBLISHED_NODES'] as const) {
        assert.ok(types.includes(type));
      }
    }
  });

  test('CP08 G04 LV05: published, also again and after a restart, and unpublished', async () => {
    await using driver = await TestDriver.start(required);
    const id = await makeVolume(driver, create('a', ext4));
    assert.deepEqual(await publishedTo(driver, id), []);
    for (const _try of [1, 2]) assert.deepEqual(await publish(driver, id), { publish_context: {} });
    assert.deepEqual(await publishedTo(driver, id), [nodeId]);
    await using again = await TestDriver.start(required, await driver.stop());
    assert.deepEqual(await publishedTo(again, id), [nodeId]);
    await publish(again, id);
    for (const _try of [1, 2]) await unpublish(again, id);
    assert.deepEqual(await publishedTo(again, id), []);
  });

  test('CP04 CP05: an unknown volume, or another node, is NOT_FOUND', async () => {
    await using driver = await TestDriver.start(required);
    const id = await makeVolume(driver, create('a', ext4));
    for (const unknown of [noSuchVolume, 'x', '../../etc']) await fails(publish(driver, unknown), 'NOT_FOUND');
    for (const node_id of ['node-2', `${nodeId}/..`, 'n'.repeat(256)]) {
      await fails(publish(driver, id, { node_id }), 'NOT_FOUND', /serves only node/);
    }
    assert.deepEqual(await publishedTo(driver, id), []);
  });

  test('CP06 CP07: published in another way is ALREADY_EXISTS, and stays as it is', async () => {
    await using driver = await TestDriver.start(required);
    const id = await makeVolume(driver, create('a', ext4));
    await publish(driver, id);
    for (const changes of [
      { readonly: true },
      { volume_capability: mount('ext4', 'SINGLE_NODE_READER_ONLY') },
      { volume_capability: mount('', 'SINGLE_NODE_MULTI_WRITER') },
      { volume_capability: mount('ext4', 'SINGLE_NODE_SINGLE_WRITER'), readonly: true },
    ]) {
      await fails(publish(driver, id, changes), 'ALREADY_EXISTS', /as SINGLE_NODE_WRITER, not as/);
    }
    // The same in other words; mount flags are between the caller and the node (X02).
    const flags = { mount: { mount_flags: ['noatime'] }, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;
    for (const volume_capability of [mount(''), flags]) await publish(driver, id, { volume_capability });
    const record = readFileSync(driver.scratch.join('main/volumes', id, 'volume.json'), 'utf8');
    assert.ok(!record.includes('noatime'));
  });

  test('CP13: a mode that allows more than the volume was made for', async () => {
    await using driver = await TestDriver.start(required);
    const alone = mount('ext4', 'SINGLE_NODE_SINGLE_WRITER');
    const id = await makeVolume(driver, create('a', { ...ext4, volume_capabilities: [alone] }));
    const more = { volume_capability: mount('ext4', 'SINGLE_NODE_MULTI_WRITER') };
    await fails(publish(driver, id, more), 'INVALID_ARGUMENT', /made for SINGLE_NODE_SINGLE_WRITER/);
    assert.deepEqual(await publishedTo(driver, id), []);
    await publish(driver, id, { volume_capability: alone });
  });

  test('CP09: published to another node is FAILED_PRECONDITION that names it, until it is unpublished there', async () => {
    await using elsewhere = await TestDriver.start({ ...required, nodeId: 'node-2' });
    const id = await makeVolume(elsewhere, create('a', ext4));
    await publish(elsewhere, id, { node_id: 'node-2' });
    await using driver = await TestDriver.start(required, await elsewhere.stop());
    await fails(publish(driver, id), 'FAILED_PRECONDITION', /published to node node-2/);
    assert.deepEqual(await publishedTo(driver, id), ['node-2']);
    const place = new TestVolume(driver.scratch, 'a');
    await fails(place.stage(driver.client, id), 'FAILED_PRECONDITION', /published to node node-2, and this is node-1/);
    // From a node that it is not published to, it is unpublished (CU04).
    await unpublish(driver, id);
    assert.deepEqual(await publishedTo(driver, id), ['node-2']);
    await unpublish(driver, id, 'node-2');
    await publish(driver, id);
    assert.deepEqual(await publishedTo(driver, id), [nodeId]);
  });

  test('CP10 CP11 NI01: beyond maxVolumesPerNode it is RESOURCE_EXHAUSTED, also for calls at once', async () => {
    await using driver = await TestDriver.start({ ...required, maxVolumesPerNode: 2, pools: { main: {}, other: {} } });
    const { max_volumes_per_node } = await driver.client.node.NodeGetInfo({});
    assert.equal(max_volumes_per_node, 2n);
    const volume_capability = block();
    const ids = [];
    for (const [index, pool] of ['main', 'other', 'main', 'other'].entries()) {
      ids.push(await makeVolume(driver, create(`v${index}`, { parameters: { pool } })));
    }
    const answers = await Promise.allSettled(ids.map((id) => publish(driver, id, { volume_capability })));
    const refused = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
    assert.equal(refused.length, 2);
    for (const error of refused)
      assert.ok(error instanceof CallError && error.code === 'RESOURCE_EXHAUSTED', `${error}`);
    const published = ids.filter((_, index) => answers[index]?.status === 'fulfilled');
    const waiting = ids.filter((_, index) => answers[index]?.status === 'rejected');
    // What is published already takes no further place.
    for (const id of published) await publish(driver, id, { volume_capability });
    await unpublish(driver, published[0] ?? '');
    await publish(driver, waiting[0] ?? '', { volume_capability });
    await fails(
      publish(driver, waiting[1] ?? '', { volume_capability }),
      'RESOURCE_EXHAUSTED',
      /maxVolumesPerNode is 2/,
    );
  });

  test('CP10: without a limit there is none', async () => {
    await using driver = await TestDriver.start(required);
    assert.equal((await driver.client.node.NodeGetInfo({})).max_volumes_per_node, 0n);
    for (let index = 0; index < 20; index++) {
      await publish(driver, await makeVolume(driver, create(`v${index}`)), { volume_capability: block() });
    }
  });

  const refusals: Record<string, Publish> = {
    'CP13: a context that no volume of ours has': { volume_context: { share: '/x' } },
    'CP13: another filesystem': { volume_capability: mount('xfs') },
    'CP13: a raw device of a filesystem volume': { volume_capability: block() },
    'CP13: several nodes': { volume_capability: mount('ext4', 'MULTI_NODE_MULTI_WRITER') },
    'CP13: a filesystem that we do not have': { volume_capability: mount('ntfs') },
    'L13: no access mode': { volume_capability: mount('ext4', 'UNKNOWN') },
    'CP02: no node': { node_id: '' },
    'CP03: no capability': { volume_capability: null },
  };
  for (const [what, changes] of Object.entries(refusals)) {
    test(`${what} is INVALID_ARGUMENT`, async () => {
      await using driver = await TestDriver.start(required);
      const id = await makeVolume(driver, create('a', ext4));
      await fails(publish(driver, id, changes), 'INVALID_ARGUMENT');
      assert.deepEqual(await publishedTo(driver, id), []);
    });
  }

  test('ST11: what Kubernetes puts into a context is no contradiction', async () => {
    await using driver = await TestDriver.start(required);
    const id = await makeVolume(driver, create('a', ext4));
    await publish(driver, id, { volume_context: { 'storage.kubernetes.io/csiProvisionerIdentity': '1-holdfast' } });
  });

  test('CU02 CU03 CU04: from no node in particular, of unknown volumes and from unknown nodes', async () => {
    await using driver = await TestDriver.start(required);
    const id = await makeVolume(driver, create('a', ext4));
    await publish(driver, id);
    for (const unknown of [noSuchVolume, 'x', '../../etc']) await unpublish(driver, unknown);
    await unpublish(driver, id, 'no-such-node');
    assert.deepEqual(await publishedTo(driver, id), [nodeId]);
    await unpublish(driver, id, '');
    assert.deepEqual(await publishedTo(driver, id), []);
    await driver.controller.DeleteVolume({ volume_id: id });
    await unpublish(driver, id);
  });

  test('DV06: a published volume is not deleted', async () => {
    await using driver = await TestDriver.start(required);
    const id = await makeVolume(driver, create('a', ext4));
    await publish(driver, id);
    await fails(driver.controller.DeleteVolume({ volume_id: id }), 'FAILED_PRECONDITION', /ControllerUnpublishVolume/);
    assert.deepEqual(await listIds(driver), [id]);
    await unpublish(driver, id);
    await driver.controller.DeleteVolume({ volume_id: id });
    assert.deepEqual(await listIds(driver), []);
  });

  test('T05: the whole way in its order; staged before published, and unpublished before unstaged, is refused', async () => {
    await using driver = await TestDriver.start(required);
    const id = await makeVolume(driver, create('a', ext4));
    const place = new TestVolume(driver.scratch, 'a');
    await fails(
      place.stage(driver.client, id),
      'FAILED_PRECONDITION',
      /not published to any node.*ControllerPublishVolume/,
    );
    await publish(driver, id);
    await place.stage(driver.client, id);
    await place.publish(driver.client, id);
    await fails(unpublish(driver, id), 'FAILED_PRECONDITION', /end that first/);
    await fails(unpublish(driver, id, ''), 'FAILED_PRECONDITION');
    assert.deepEqual(await publishedTo(driver, id), [nodeId]);
    await place.unpublish(driver.client, id);
    await place.unstage(driver.client, id);
    await released(driver, id);
    await unpublish(driver, id);
    await driver.controller.DeleteVolume({ volume_id: id });
  });

  for (const [kind, capability] of Object.entries({ mount: mount('ext4'), block: block() })) {
    test(`CP12 ${kind}: published read-only it is so for the workload, although that does not ask for it`, async () => {
      await using driver = await TestDriver.start(required);
      const id = await makeVolume(driver, create('a', { ...ext4, volume_capabilities: [capability] }));
      await publish(driver, id, { volume_capability: capability, readonly: true });
      const place = new TestVolume(driver.scratch, 'a', capability);
      await place.stage(driver.client, id);
      for (const _try of [1, 2]) await place.publish(driver.client, id);
      const target = kind === 'mount' ? place.file('file') : place.targetPath;
      const writing = () =>
        execFileSync('dd', ['if=/dev/zero', `of=${target}`, 'bs=4k', 'count=1', 'conv=fsync'], { stdio: 'pipe' });
      assert.throws(writing, /Read-only file system|Operation not permitted/);
      await place.unpublish(driver.client, id);
      await place.unstage(driver.client, id);
      await released(driver, id);
      await unpublish(driver, id);
      await publish(driver, id, { volume_capability: capability });
      await place.stage(driver.client, id);
      await place.publish(driver.client, id);
      writing();
      await place.unpublish(driver.client, id);
      await place.unstage(driver.client, id);
    });
  }

  test('CV25: neither a clone nor a restored volume is published because its source is', async () => {
    await using driver = await TestDriver.start({ ...required, locations: 'file' });
    const id = await makeVolume(driver, create('a', ext4));
    await publish(driver, id);
    const clone = await makeVolume(
      driver,
      create('c', { ...ext4, volume_content_source: { volume: { volume_id: id } } }),
    );
    assert.deepEqual(await publishedTo(driver, clone), []);
  });
});

describe('attach: none', () => {
  test('G04 E05: a volume that an earlier configuration published is shown, staged and deleted as any other', async () => {
    await using before = await TestDriver.start(required);
    const id = await makeVolume(before, create('a', ext4));
    await publish(before, id, { readonly: true });
    await using driver = await TestDriver.start({}, await before.stop());
    await fails(publish(driver, id), 'UNIMPLEMENTED');
    await fails(unpublish(driver, id), 'UNIMPLEMENTED');
    assert.deepEqual(await publishedTo(driver, id), []);
    const place = new TestVolume(driver.scratch, 'a');
    await place.stage(driver.client, id);
    await place.publish(driver.client, id);
    execFileSync('touch', [place.file('file')]);
    await place.unpublish(driver.client, id);
    await place.unstage(driver.client, id);
    await released(driver, id);
    await driver.controller.DeleteVolume({ volume_id: id });
  });
});
