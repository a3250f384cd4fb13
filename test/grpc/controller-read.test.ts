import assert from 'node:assert/strict';
import { rmSync, truncateSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { volumeIdFor } from '../../src/volume/id.ts';
import {
  block,
  create,
  fails,
  here,
  listIds,
  mebibyte,
  mount,
  nodeId,
  TestDriver,
  volumeOf,
} from './controller-driver.ts';

const unknownIds = [
  volumeIdFor(nodeId, 'main', 'never'),
  'x',
  '../../etc/passwd',
  'vol-../../../../../../../../..',
  `${volumeIdFor(nodeId, 'main', 'a')}/../x`,
];

async function madeVolume(driver: TestDriver, request = create('a')): Promise<string> {
  return volumeOf(await driver.controller.CreateVolume(request)).volume_id;
}

describe('ControllerGetCapabilities', () => {
  const always = [
    'CLONE_VOLUME',
    'CREATE_DELETE_SNAPSHOT',
    'CREATE_DELETE_VOLUME',
    'GET_CAPACITY',
    'GET_SNAPSHOT',
    'GET_VOLUME',
    'LIST_SNAPSHOTS',
    'LIST_VOLUMES',
    'MODIFY_VOLUME',
    'SINGLE_NODE_MULTI_WRITER',
    'VOLUME_CONDITION',
  ];
  for (const [expansion, types] of Object.entries({ node: always, controller: [...always, 'EXPAND_VOLUME'] })) {
    test(`CC01 G02 G05 G08: expansion ${expansion}`, async () => {
      await using driver = await TestDriver.start({ expansion: expansion === 'node' ? 'node' : 'controller' });
      const { capabilities } = await driver.controller.ControllerGetCapabilities({});
      assert.deepEqual(capabilities.map(({ rpc }) => rpc?.type).sort(), [...types].sort());
    });
  }

  test('E05 G02: what is not advertised is UNIMPLEMENTED, whatever the request holds', async () => {
    await using driver = await TestDriver.start({ expansion: 'node' });
    const volume_id = await madeVolume(driver);
    const { controller } = driver;
    for (const call of [
      controller.ControllerExpandVolume({ volume_id, capacity_range: { required_bytes: 1n << 30n } }),
      controller.ControllerExpandVolume({}),
      controller.ControllerPublishVolume({ volume_id, node_id: nodeId, volume_capability: block() }),
      controller.ControllerUnpublishVolume({ volume_id }),
    ]) {
      await fails(call, 'UNIMPLEMENTED');
    }
  });
});

describe('ValidateVolumeCapabilities', () => {
  const parameters = { mkfsOptions: '-m 1', 'csi.storage.k8s.io/pvc/name': 'claim' };
  const ext4 = create('a', { volume_capabilities: [mount('ext4')], parameters });
  type Request = Draft<wire.ValidateVolumeCapabilitiesRequest>;

  const confirmed: Record<string, Request> = {
    'what it was made with': { volume_capabilities: [mount('ext4')] },
    'the filesystem unnamed': { volume_capabilities: [mount()] },
    'each mode of one node': {
      volume_capabilities: [
        mount('', 'SINGLE_NODE_READER_ONLY'),
        mount('', 'SINGLE_NODE_SINGLE_WRITER'),
        mount('', 'SINGLE_NODE_MULTI_WRITER'),
      ],
    },
    'mount flags, which only a mount can judge': {
      volume_capabilities: [{ mount: { mount_flags: ['noatime'] }, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    },
    'its parameters': { volume_capabilities: [mount()], parameters },
    'its pool by name': { volume_capabilities: [mount()], parameters: { ...parameters, pool: 'main' } },
    'what Kubernetes adds to a context': {
      volume_capabilities: [mount()],
      volume_context: { 'storage.kubernetes.io/csiProvisionerIdentity': '1-2-holdfast', 'csi.storage.k8s.io/x': 'y' },
    },
  };
  for (const [what, request] of Object.entries(confirmed)) {
    test(`VC05 VC06: ${what} is confirmed and echoed, nothing else`, async () => {
      await using driver = await TestDriver.start();
      const volume_id = await madeVolume(driver, ext4);
      const answer = await driver.controller.ValidateVolumeCapabilities({ volume_id, ...request });
      assert.equal(answer.message, '');
      assert.equal(answer.confirmed?.volume_capabilities.length, request.volume_capabilities?.length);
      assert.deepEqual(answer.confirmed?.volume_context, request.volume_context ?? {});
      assert.deepEqual(answer.confirmed?.parameters, request.parameters ?? {});
      assert.deepEqual(answer.confirmed?.mutable_parameters, {});
      assert.deepEqual(await driver.controller.ValidateVolumeCapabilities({ volume_id, ...request }), answer);
    });
  }

  test('VC05: a mode that allows more than the volume was made for is not confirmed', async () => {
    await using driver = await TestDriver.start();
    const volume_id = await madeVolume(
      driver,
      create('a', { volume_capabilities: [mount('ext4', 'SINGLE_NODE_SINGLE_WRITER')] }),
    );
    const ask = (mode: wire.VolumeCapabilityAccessModeMode) =>
      driver.controller.ValidateVolumeCapabilities({ volume_id, volume_capabilities: [mount('ext4', mode)] });
    assert.notEqual((await ask('SINGLE_NODE_SINGLE_WRITER')).confirmed, null);
    const { confirmed, message } = await ask('SINGLE_NODE_MULTI_WRITER');
    assert.equal(confirmed, null);
    assert.match(message, /made for SINGLE_NODE_SINGLE_WRITER/);
  });

  const denied: Record<string, Request> = {
    'A04: another filesystem': { volume_capabilities: [mount('xfs')] },
    'A04: an unknown filesystem with a long name': { volume_capabilities: [mount('🗻'.repeat(32))] },
    'A04: block': { volume_capabilities: [block()] },
    'A05: several nodes': { volume_capabilities: [mount('', 'MULTI_NODE_MULTI_WRITER')] },
    'VC05: one of two': { volume_capabilities: [mount(), mount('', 'MULTI_NODE_READER_ONLY')] },
    'VC07: a context that it has not': { volume_capabilities: [mount()], volume_context: { share: '/x' } },
    'VC07: another pool': { volume_capabilities: [mount()], parameters: { pool: 'other' } },
    'VC07: another provisioning': { volume_capabilities: [mount()], parameters: { provisioning: 'thick' } },
    'VC07: other mkfsOptions': { volume_capabilities: [mount()], parameters: { mkfsOptions: '' } },
    'VC07: an unknown parameter': { volume_capabilities: [mount()], parameters: { ['k'.repeat(200)]: 'x' } },
    'VC07: mutable parameters': { volume_capabilities: [mount()], mutable_parameters: { iops: '1' } },
  };
  for (const [what, request] of Object.entries(denied)) {
    test(`VC05: ${what} is OK without confirmed, with a reason of at most 128 bytes (L07)`, async () => {
      await using driver = await TestDriver.start();
      const volume_id = await madeVolume(driver, ext4);
      const { confirmed, message } = await driver.controller.ValidateVolumeCapabilities({ volume_id, ...request });
      assert.equal(confirmed, null);
      assert.ok(message !== '' && Buffer.byteLength(message) <= 128, message);
    });
  }

  test('VC03: an unknown volume is NOT_FOUND', async () => {
    await using driver = await TestDriver.start();
    for (const volume_id of unknownIds) {
      const call = driver.controller.ValidateVolumeCapabilities({ volume_id, volume_capabilities: [mount()] });
      await fails(call, 'NOT_FOUND');
    }
  });

  const invalid: Record<string, Request> = {
    'VC01: no id': { volume_id: '', volume_capabilities: [mount()] },
    'VC02: no capabilities': { volume_capabilities: [] },
    'L13: no access mode': { volume_capabilities: [{ block: {} }] },
    'L13: an unknown mode beside an unsupported one': {
      volume_capabilities: [mount('', 'MULTI_NODE_READER_ONLY'), mount('', 99)],
    },
    'L14: no access type': { volume_capabilities: [{ access_mode: { mode: 'SINGLE_NODE_WRITER' } }] },
  };
  for (const [what, request] of Object.entries(invalid)) {
    test(`${what} is INVALID_ARGUMENT, also for a volume that nobody knows`, async () => {
      await using driver = await TestDriver.start();
      const volume_id = unknownIds[0] ?? '';
      await fails(driver.controller.ValidateVolumeCapabilities({ volume_id, ...request }), 'INVALID_ARGUMENT');
    });
  }
});

describe('ListVolumes', () => {
  const pools = { main: {}, other: {} };

  async function madeVolumes(driver: TestDriver, count: number): Promise<string[]> {
    const requests = Array.from({ length: count }, (_, index) =>
      create(`v${index}`, { parameters: { pool: index % 2 === 0 ? 'main' : 'other' } }),
    );
    const ids = await Promise.all(requests.map((request) => madeVolume(driver, request)));
    return ids.sort();
  }

  test('LV01: nothing there is an empty list', async () => {
    await using driver = await TestDriver.start();
    assert.deepEqual(await driver.controller.ListVolumes({}), { entries: [], next_token: '' });
  });

  test('LV04 LV05 G05: each volume of every pool as at creation, with its condition', async () => {
    await using driver = await TestDriver.start({ pools });
    const made = [
      volumeOf(await driver.controller.CreateVolume(create('a'))),
      volumeOf(await driver.controller.CreateVolume(create('b', { parameters: { pool: 'other' } }))),
    ];
    const { entries } = await driver.controller.ListVolumes({});
    assert.deepEqual(
      entries.map(({ volume }) => volume),
      made.sort((a, b) => (a.volume_id < b.volume_id ? -1 : 1)),
    );
    for (const { status } of entries) {
      assert.deepEqual(status, {
        published_node_ids: [],
        volume_condition: { abnormal: false, message: status?.volume_condition?.message },
      });
      assert.notEqual(status?.volume_condition?.message, '');
    }
  });

  test('LV05: a volume whose image is gone is listed as abnormal', async () => {
    await using driver = await TestDriver.start();
    const volume_id = await madeVolume(driver);
    rmSync(driver.scratch.join('main', 'volumes', volume_id, 'data'));
    const { entries } = await driver.controller.ListVolumes({});
    assert.equal(entries[0]?.volume?.volume_id, volume_id);
    assert.equal(entries[0]?.status?.volume_condition?.abnormal, true);
  });

  for (const max_entries of [1, 2, 3, 7, 8]) {
    test(`N01 LV03: pages of ${max_entries} show every volume of all pools once`, async () => {
      await using driver = await TestDriver.start({ pools });
      const ids = await madeVolumes(driver, 7);
      const seen: string[] = [];
      let starting_token = '';
      do {
        const { entries, next_token } = await driver.controller.ListVolumes({ max_entries, starting_token });
        assert.ok(entries.length <= max_entries);
        assert.ok(next_token === '' || entries.length === max_entries);
        seen.push(...entries.map((entry) => volumeOf(entry).volume_id));
        starting_token = next_token;
      } while (starting_token !== '');
      assert.deepEqual(seen, ids);
    });
  }

  test('N01: after a first page, a token without max_entries gives all the rest', async () => {
    await using driver = await TestDriver.start({ pools });
    const ids = await madeVolumes(driver, 5);
    const { next_token } = await driver.controller.ListVolumes({ max_entries: 2 });
    const { entries, next_token: none } = await driver.controller.ListVolumes({ starting_token: next_token });
    assert.deepEqual(
      entries.map((entry) => volumeOf(entry).volume_id),
      ids.slice(2),
    );
    assert.equal(none, '');
  });

  test('N02: a token stays good when its volume is deleted, and after a restart', async () => {
    await using before = await TestDriver.start({ pools });
    const ids = await madeVolumes(before, 5);
    const { next_token } = await before.controller.ListVolumes({ max_entries: 2 });
    await before.controller.DeleteVolume({ volume_id: ids[1] });
    await using driver = await TestDriver.start({ pools }, await before.stop());
    const { entries } = await driver.controller.ListVolumes({ starting_token: next_token });
    assert.deepEqual(
      entries.map((entry) => volumeOf(entry).volume_id),
      ids.slice(2),
    );
  });

  test('N02: a volume that is deleted at the same time is there or not, but not reported as damaged', async () => {
    await using driver = await TestDriver.start();
    const requests = Array.from({ length: 50 }, (_, index) => create(`v${index}`));
    const ids = await Promise.all(requests.map((request) => madeVolume(driver, request)));
    const kept = ids.splice(0, 5).sort();
    const deletions = Promise.all(ids.map((volume_id) => driver.controller.DeleteVolume({ volume_id })));
    let seen: string[] = [];
    do {
      const { entries } = await driver.controller.ListVolumes({});
      assert.deepEqual(
        entries.filter(({ status }) => status?.volume_condition?.abnormal !== false),
        [],
      );
      seen = entries.map((entry) => volumeOf(entry).volume_id);
      assert.deepEqual(
        seen.filter((id) => kept.includes(id)),
        kept,
      );
    } while (seen.length > kept.length);
    await deletions;
  });

  test('LV02: a token that we never gave is ABORTED', async () => {
    await using driver = await TestDriver.start();
    for (const starting_token of ['invalid-token', '0', 'vol-', '../..', 'snap-aaaaaaaaaaaaaaaaaaaaaaaaaa', '🗻']) {
      await fails(driver.controller.ListVolumes({ starting_token }), 'ABORTED', /list again/);
    }
  });

  test('N01 L11: negative max_entries is INVALID_ARGUMENT', async () => {
    await using driver = await TestDriver.start();
    await fails(driver.controller.ListVolumes({ max_entries: -1 }), 'INVALID_ARGUMENT');
  });

  test('LV04: without one of its pools the driver says so instead of leaving volumes out', async () => {
    await using driver = await TestDriver.start({ pools, failing: { other: 'its disk is gone' } });
    await fails(driver.controller.ListVolumes({}), 'UNAVAILABLE', /its disk is gone/);
  });
});

describe('ControllerGetVolume', () => {
  test('GV01: no id is INVALID_ARGUMENT', async () => {
    await using driver = await TestDriver.start();
    await fails(driver.controller.ControllerGetVolume({}), 'INVALID_ARGUMENT', /volume_id/);
  });

  test('GV02: an unknown volume is NOT_FOUND', async () => {
    await using driver = await TestDriver.start();
    for (const volume_id of unknownIds) await fails(driver.controller.ControllerGetVolume({ volume_id }), 'NOT_FOUND');
  });

  test('GV03 Y06: the volume as at creation, and its status', async () => {
    await using driver = await TestDriver.start();
    const made = volumeOf(await driver.controller.CreateVolume(create('a')));
    const { volume, status } = await driver.controller.ControllerGetVolume({ volume_id: made.volume_id });
    assert.deepEqual(volume, made);
    assert.equal(status?.volume_condition?.abnormal, false);
    assert.deepEqual(status?.published_node_ids, []);
  });

  const damage: Record<string, (data: string) => void> = {
    missing: (data) => rmSync(data),
    'too short': (data) => truncateSync(data, 4096),
  };
  for (const [what, harm] of Object.entries(damage)) {
    test(`GV04 L07: an image that is ${what} is OK with abnormal`, async () => {
      await using driver = await TestDriver.start();
      const volume_id = await madeVolume(driver);
      harm(driver.scratch.join('main', 'volumes', volume_id, 'data'));
      const { volume, status } = await driver.controller.ControllerGetVolume({ volume_id });
      assert.equal(volume?.capacity_bytes, 16n * mebibyte);
      assert.equal(status?.volume_condition?.abnormal, true);
      assert.match(status?.volume_condition?.message ?? '', /image/);
    });
  }

  test('GV04: a record that cannot be read is OK with abnormal, and no size', async () => {
    await using before = await TestDriver.start();
    const volume_id = await madeVolume(before);
    const scratch = await before.stop();
    writeFileSync(scratch.join('main', 'volumes', volume_id, 'volume.json'), '{');
    await using driver = await TestDriver.start({}, scratch);
    const { volume, status } = await driver.controller.ControllerGetVolume({ volume_id });
    assert.deepEqual(volume, {
      volume_id,
      capacity_bytes: 0n,
      volume_context: {},
      content_source: null,
      accessible_topology: [{ segments: here }],
    });
    assert.equal(status?.volume_condition?.abnormal, true);
    await fails(driver.controller.CreateVolume(create('a')), 'DATA_LOSS', new RegExp(volume_id));
    assert.deepEqual(await listIds(driver), []);
  });
});
