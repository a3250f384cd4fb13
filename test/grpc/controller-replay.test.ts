import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { parseVolumeId, volumeIdFor } from '../../src/volume/id.ts';
import { CallError } from '../support/client.ts';
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
import { until } from './wire-server.ts';

type Request = Draft<wire.CreateVolumeRequest>;

const twoPools = { pools: { main: {}, other: {} } };

/** What the first call asked for in these tests: a small ext4 volume with a size between two bounds. */
const first = create('a', {
  capacity_range: { required_bytes: 32n * mebibyte, limit_bytes: 64n * mebibyte },
  volume_capabilities: [mount('ext4'), mount('ext4', 'SINGLE_NODE_READER_ONLY')],
  parameters: { mkfsOptions: '-m 1', 'csi.storage.k8s.io/pvc/name': 'claim' },
});

describe('CreateVolume again', () => {
  const compatible: Record<string, Request> = {
    'CV14: the same request': {},
    'CV17: the capabilities in another order': {
      volume_capabilities: [mount('ext4', 'SINGLE_NODE_READER_ONLY'), mount('ext4')],
    },
    'CV17: a capability twice': {
      volume_capabilities: [mount('ext4', 'SINGLE_NODE_READER_ONLY'), mount('ext4'), mount('ext4')],
    },
    'CV17: another range that it satisfies': { capacity_range: { required_bytes: mebibyte } },
    'CV17: no range': { capacity_range: null },
    'CV17: a requisite topology with its node': {
      accessibility_requirements: { requisite: [{ segments: { zone: 'a' } }, { segments: here }] },
    },
    'CV17: the filesystem unnamed': { volume_capabilities: [mount(), mount('', 'SINGLE_NODE_READER_ONLY')] },
    'CV17: its pool and provisioning by name': {
      parameters: { mkfsOptions: '-m 1', pool: 'main', provisioning: 'thin' },
    },
    'CV10: without what Kubernetes had added': { parameters: { mkfsOptions: '-m 1' } },
    'X01: other secrets': { secrets: { key: 'value' } },
  };
  for (const [what, changes] of Object.entries(compatible)) {
    test(`${what} has the same answer`, async () => {
      await using driver = await TestDriver.start(twoPools);
      const made = await driver.controller.CreateVolume(first);
      assert.deepEqual(await driver.controller.CreateVolume({ ...first, ...changes }), made);
      assert.deepEqual(await listIds(driver), [volumeOf(made).volume_id]);
    });
  }

  const incompatible: Record<string, Request> = {
    'CV15: a larger size': { capacity_range: { required_bytes: 33n * mebibyte } },
    'CV15: a smaller limit': { capacity_range: { limit_bytes: 31n * mebibyte } },
    'CV16: another filesystem': {
      volume_capabilities: [mount('btrfs'), mount('btrfs', 'SINGLE_NODE_READER_ONLY')],
    },
    'CV16: block': { volume_capabilities: [block(), block('SINGLE_NODE_READER_ONLY')], parameters: {} },
    'CV16: another access mode': { volume_capabilities: [mount('ext4', 'SINGLE_NODE_SINGLE_WRITER')] },
    'CV16: fewer access modes': { volume_capabilities: [mount('ext4')] },
    'CV16: another pool': { parameters: { mkfsOptions: '-m 1', pool: 'other' } },
    'CV16: another provisioning': { parameters: { mkfsOptions: '-m 1', provisioning: 'thick' } },
    'CV16: other mkfsOptions': { parameters: {} },
    'CV16: a requisite topology without its node': {
      accessibility_requirements: { requisite: [{ segments: { zone: 'a' } }] },
    },
  };
  for (const [what, changes] of Object.entries(incompatible)) {
    test(`${what} is ALREADY_EXISTS, and names the volume`, async () => {
      await using driver = await TestDriver.start(twoPools);
      const { volume_id } = volumeOf(await driver.controller.CreateVolume(first));
      await fails(driver.controller.CreateVolume({ ...first, ...changes }), 'ALREADY_EXISTS', new RegExp(volume_id));
      assert.deepEqual(await listIds(driver), [volume_id]);
    });
  }

  test('CV16: a volume in a pool that is no longer the default answers a request that names no pool', async () => {
    await using driver = await TestDriver.start(twoPools);
    const made = await driver.controller.CreateVolume(create('a', { parameters: { pool: 'other' } }));
    assert.deepEqual(await driver.controller.CreateVolume(create('a')), made);
    await fails(
      driver.controller.CreateVolume(create('a', { parameters: { pool: 'main' } })),
      'ALREADY_EXISTS',
      /it is in pool other/,
    );
  });

  test('T01 T03: after a restart the name finds the same volume', async () => {
    await using before = await TestDriver.start(twoPools);
    const made = await before.controller.CreateVolume(first);
    const scratch = await before.stop();
    await using driver = await TestDriver.start(twoPools, scratch);
    assert.deepEqual(await driver.controller.CreateVolume(first), made);
    await fails(
      driver.controller.CreateVolume({ ...first, parameters: { pool: 'other' } }),
      'ALREADY_EXISTS',
      /in pool main/,
    );
  });

  test('T02 T03: a client that gave up finds by the same name what its first try made', async () => {
    await using driver = await TestDriver.start();
    const hangUp = new AbortController();
    const abandoned = driver.controller.CreateVolume(first, { signal: hangUp.signal });
    // The driver has begun: it holds the name.
    await until(() => driver.objects.busy('volume name "a"'));
    hangUp.abort();
    await fails(abandoned, 'CANCELLED');
    const made = volumeOf(await driver.controller.CreateVolume(first));
    assert.equal(made.volume_id, volumeIdFor(nodeId, 'main', 'a'));
    assert.deepEqual(await listIds(driver), [made.volume_id]);
  });

  test('a name is free again once its volume is deleted', async () => {
    await using driver = await TestDriver.start(twoPools);
    const { volume_id } = volumeOf(await driver.controller.CreateVolume(first));
    await driver.controller.DeleteVolume({ volume_id });
    await driver.controller.CreateVolume({ ...first, parameters: { pool: 'other' } });
  });
});

describe('CreateVolume at once', () => {
  test('K02: 50 equal calls make one volume and all get it', async () => {
    await using driver = await TestDriver.start(twoPools);
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, call) =>
        driver.controller.CreateVolume({ ...first, secrets: { call: `${call}` } }),
      ),
    );
    assert.equal(new Set(answers.map((answer) => volumeOf(answer).volume_id)).size, 1);
    assert.deepEqual(await listIds(driver), [volumeIdFor(nodeId, 'main', 'a')]);
  });

  test('K02: 50 calls that are compatible but not equal make one volume', async () => {
    await using driver = await TestDriver.start();
    const calls = Array.from({ length: 50 }, (_, call) =>
      driver.controller.CreateVolume(
        create('a', { capacity_range: { required_bytes: 16n * mebibyte - BigInt(call % 5) } }),
      ),
    );
    const answers = await Promise.allSettled(calls);
    for (const answer of answers) {
      // A loser may be told to come back (ABORTED); nothing else may go wrong.
      if (answer.status === 'rejected')
        assert.ok(answer.reason instanceof CallError && answer.reason.code === 'ABORTED');
    }
    assert.equal((await listIds(driver)).length, 1);
  });

  for (const [what, changes] of Object.entries<Request>({
    sizes: { capacity_range: { required_bytes: 17n * mebibyte } },
    pools: { parameters: { pool: 'other' } },
    capabilities: { volume_capabilities: [mount()] },
  })) {
    test(`K02: of two unequal calls (${what}) one wins and the other hears why not`, async () => {
      await using driver = await TestDriver.start(twoPools);
      for (let round = 0; round < 10; round++) {
        const request = create(`a${round}`, { parameters: { pool: 'main' } });
        const exact = { ...request, capacity_range: { required_bytes: 16n * mebibyte, limit_bytes: 16n * mebibyte } };
        const answers = await Promise.allSettled([
          driver.controller.CreateVolume(exact),
          driver.controller.CreateVolume({ ...request, ...changes }),
        ]);
        const lost = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
        assert.equal(lost.length, 1);
        assert.ok(lost[0] instanceof CallError && ['ALREADY_EXISTS', 'ABORTED'].includes(lost[0].code), `${lost[0]}`);
        assert.equal((await listIds(driver)).length, round + 1);
      }
    });
  }

  test('100 different volumes at once, none lost', async () => {
    await using driver = await TestDriver.start();
    const names = Array.from({ length: 100 }, () => randomUUID());
    const made = await Promise.all(names.map((name) => driver.controller.CreateVolume(create(name))));
    assert.deepEqual(await listIds(driver), made.map((answer) => volumeOf(answer).volume_id).sort());
  });

  test('GC04: calls at once are not promised the same space', async () => {
    await using driver = await TestDriver.start();
    const { available_capacity } = await driver.controller.GetCapacity({});
    const half = { required_bytes: (available_capacity / 2n / 4096n) * 4096n + (1n << 30n) };
    const answers = await Promise.allSettled(
      ['a', 'b', 'c'].map((name) => driver.controller.CreateVolume(create(name, { capacity_range: half }))),
    );
    assert.equal(answers.filter((answer) => answer.status === 'fulfilled').length, 1);
  });

  test('K04: create and delete of one volume in a wild mix leave it whole or gone', async () => {
    await using driver = await TestDriver.start();
    const volume_id = volumeIdFor(nodeId, 'main', 'a');
    for (let round = 0; round < 20; round++) {
      const answers = await Promise.allSettled([
        driver.controller.CreateVolume(create('a')),
        driver.controller.DeleteVolume({ volume_id }),
        driver.controller.CreateVolume(create('a')),
        driver.controller.DeleteVolume({ volume_id }),
      ]);
      for (const answer of answers) {
        if (answer.status === 'rejected')
          assert.ok(answer.reason instanceof CallError && answer.reason.code === 'ABORTED');
      }
      const made = volumeOf(await driver.controller.CreateVolume(create('a')));
      const { status } = await driver.controller.ControllerGetVolume({ volume_id: made.volume_id });
      assert.equal(status?.volume_condition?.abnormal, false);
    }
  });

  test('K01 K05: work on one volume is ABORTED for others of it, and holds up nobody else', async () => {
    await using driver = await TestDriver.start();
    const { volume_id } = volumeOf(await driver.controller.CreateVolume(create('a')));
    const id = parseVolumeId(volume_id);
    assert.ok(id);
    let finish = () => {};
    const work = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const staging = driver.objects.run(id, 'NodeStageVolume', '', () => work);
    await fails(driver.controller.DeleteVolume({ volume_id }), 'ABORTED', /NodeStageVolume/);
    await driver.controller.CreateVolume(create('b'));
    await driver.client.identity.Probe({});
    assert.deepEqual(volumeOf(await driver.controller.CreateVolume(create('a'))).volume_id, volume_id);
    finish();
    await staging;
    await driver.controller.DeleteVolume({ volume_id });
  });
});
