import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { CallError } from '../support/client.ts';
import {
  block,
  create,
  fails,
  fromSnapshot,
  fromVolume,
  gate,
  here,
  listIds,
  makeSnapshot,
  makeVolume,
  mebibyte,
  mount,
  nodeId,
  snapshotOf,
  TestDriver,
  volumeOf,
} from './controller-driver.ts';

type Request = Draft<wire.CreateVolumeRequest>;

const sharing = { locations: 'file' } as const;
const ext4 = { capacity_range: { required_bytes: 32n * mebibyte }, volume_capabilities: [mount('ext4')] };
const there = { 'topology.holdfast.dev/node': 'elsewhere' };

/** An ext4 volume and a snapshot of it, and what can be made from either. */
async function madeSources(driver: TestDriver, changes: Request = {}) {
  const volume = await makeVolume(driver, create('source', { ...ext4, ...changes }));
  const snapshot = await makeSnapshot(driver, volume, 's');
  return { volume, snapshot, sources: [fromSnapshot(snapshot), fromVolume(volume)] };
}

describe('CreateVolume from a snapshot or a volume', () => {
  test('CV21 CV23 CV25 LV04: content_source is the same in every answer, also on a replay and after a restart', async () => {
    await using driver = await TestDriver.start(sharing);
    const { snapshot, sources, volume } = await madeSources(driver);
    const made: wire.Volume[] = [];
    for (const [index, volume_content_source] of sources.entries()) {
      const request = create(`copy ${index}`, { ...ext4, volume_content_source });
      const answer = await driver.controller.CreateVolume(request);
      assert.deepEqual(await driver.controller.CreateVolume(request), answer);
      made.push(volumeOf(answer));
    }
    const idsOf = ({ content_source }: wire.Volume) => [
      content_source?.snapshot?.snapshot_id,
      content_source?.volume?.volume_id,
    ];
    assert.deepEqual(made.map(idsOf), [
      [snapshot, undefined],
      [undefined, volume],
    ]);
    await using again = await TestDriver.start(sharing, await driver.stop());
    const { entries } = await again.controller.ListVolumes({});
    for (const expected of made) {
      const { volume_id } = expected;
      assert.deepEqual(volumeOf(await again.controller.ControllerGetVolume({ volume_id })), expected);
      assert.deepEqual(
        entries.map(volumeOf).find((listed) => listed.volume_id === volume_id),
        expected,
      );
    }
  });

  test('CV22 CV24: a source that does not exist, or cannot, is NOT_FOUND; nothing is made', async () => {
    await using driver = await TestDriver.start();
    for (const volume_content_source of [
      fromSnapshot(snapshotIdFor(nodeId, 'no such')),
      fromVolume(volumeIdFor(nodeId, 'main', 'no such')),
      fromSnapshot('../../etc'),
      fromVolume('../../etc'),
      fromSnapshot(volumeIdFor(nodeId, 'main', 'no such')),
    ]) {
      await fails(driver.controller.CreateVolume(create('a', { volume_content_source })), 'NOT_FOUND');
    }
    assert.deepEqual(await listIds(driver), []);
  });

  test('L14: a source without a type or an id is INVALID_ARGUMENT', async () => {
    await using driver = await TestDriver.start();
    for (const volume_content_source of [{}, fromSnapshot(''), fromVolume('')]) {
      await fails(driver.controller.CreateVolume(create('a', { volume_content_source })), 'INVALID_ARGUMENT');
    }
  });

  test('CV29 Y05: a volume wanted elsewhere is RESOURCE_EXHAUSTED; without a wish it lies beside its source', async () => {
    await using driver = await TestDriver.start();
    const { sources } = await madeSources(driver);
    const elsewhere = { requisite: [{ segments: there }] };
    for (const volume_content_source of sources) {
      const request = create('a', { ...ext4, volume_content_source, accessibility_requirements: elsewhere });
      await fails(driver.controller.CreateVolume(request), 'RESOURCE_EXHAUSTED', /requisite topology/);
      const made = await driver.controller.CreateVolume(create(randomUUID(), { ...ext4, volume_content_source }));
      assert.deepEqual(volumeOf(made).accessible_topology, [{ segments: here }]);
    }
  });

  test('CV29 Y05: a source that is not here, wanted here: another node may have it, and has to be asked', async () => {
    await using driver = await TestDriver.start();
    const accessibility_requirements = { requisite: [{ segments: here }] };
    for (const volume_content_source of [
      fromSnapshot(snapshotIdFor('elsewhere', 's')),
      fromVolume(volumeIdFor('elsewhere', 'main', 'v')),
    ]) {
      const request = create('a', { volume_content_source, accessibility_requirements });
      await fails(driver.controller.CreateVolume(request), 'RESOURCE_EXHAUSTED', /if another node has it/);
    }
  });

  const incompatible: Record<string, readonly [Request, RegExp]> = {
    'CV26: another filesystem': [{ volume_capabilities: [mount('xfs')] }, /it holds ext4, not xfs/],
    'CV26: block': [{ volume_capabilities: [block()] }, /ext4 filesystem and cannot be used as a raw block volume/],
    'CV26: another pool': [{ parameters: { pool: 'other' } }, /is in pool main.*instead of other/],
    'CV26: a pool that does not exist': [{ parameters: { pool: 'third' } }, /no pool 'third'/],
    'CV10: mkfsOptions that are wrong, although nothing is formatted': [
      { parameters: { mkfsOptions: '-d /etc' } },
      /mkfsOptions/,
    ],
  };
  for (const [what, [changes, reason]] of Object.entries(incompatible)) {
    test(`${what} is INVALID_ARGUMENT with the reason; nothing is made`, async () => {
      await using driver = await TestDriver.start({ pools: { main: {}, other: {} } });
      const { sources, volume } = await madeSources(driver);
      for (const volume_content_source of sources) {
        const request = create('a', { ...ext4, volume_content_source, ...changes });
        await fails(driver.controller.CreateVolume(request), 'INVALID_ARGUMENT', reason);
      }
      assert.deepEqual(await listIds(driver), [volume]);
    });
  }

  test('CV26: a raw block source makes no filesystem volume', async () => {
    await using driver = await TestDriver.start();
    const { sources } = await madeSources(driver, { volume_capabilities: [block()] });
    for (const volume_content_source of sources) {
      const request = create('a', { ...ext4, volume_content_source });
      await fails(
        driver.controller.CreateVolume(request),
        'INVALID_ARGUMENT',
        /raw block volume and cannot be mounted/,
      );
      await makeVolume(
        driver,
        create(randomUUID(), { ...ext4, volume_content_source, volume_capabilities: [block()] }),
      );
    }
  });

  test('CV26: without a word about pool and filesystem both are the source’s, not the defaults', async () => {
    await using driver = await TestDriver.start({ pools: { main: { defaultFilesystem: 'btrfs' }, other: {} } });
    const { sources } = await madeSources(driver, { parameters: { pool: 'other' } });
    for (const [index, volume_content_source] of sources.entries()) {
      const request = { ...ext4, volume_content_source, volume_capabilities: [mount()] };
      const volume_id = await makeVolume(driver, create(`copy ${index}`, request));
      assert.equal(volume_id, volumeIdFor(nodeId, 'other', `copy ${index}`));
      const uses = { volume_id, volume_capabilities: [mount('ext4')] };
      assert.ok((await driver.controller.ValidateVolumeCapabilities(uses)).confirmed);
    }
  });

  test("one class makes new and restored volumes: mkfsOptions formats the one, and the other is the source's", async () => {
    await using driver = await TestDriver.start();
    const ofClass = { ...ext4, parameters: { mkfsOptions: '-m 1', provisioning: 'thin' } };
    const { sources } = await madeSources(driver, ofClass);
    for (const volume_content_source of sources) {
      const request = create(randomUUID(), { ...ofClass, volume_content_source });
      const made = await driver.controller.CreateVolume(request);
      assert.deepEqual(await driver.controller.CreateVolume(request), made);
    }
  });

  test('CV28: as large as the source without a size, never smaller, larger if asked for', async () => {
    await using driver = await TestDriver.start(sharing);
    const { sources } = await madeSources(driver);
    const size = 32n * mebibyte;
    for (const volume_content_source of sources) {
      const made = async (capacity_range: Request['capacity_range']) => {
        const request = create(randomUUID(), { ...ext4, volume_content_source, capacity_range });
        return volumeOf(await driver.controller.CreateVolume(request)).capacity_bytes;
      };
      assert.equal(await made(null), size);
      assert.equal(await made({ limit_bytes: 4n * size }), size);
      assert.equal(await made({ required_bytes: size }), size);
      assert.equal(await made({ required_bytes: size, limit_bytes: size }), size);
      assert.equal(await made({ required_bytes: 2n * size }), 2n * size);
      await fails(made({ required_bytes: size - 4096n }), 'OUT_OF_RANGE', /too few/);
      await fails(made({ required_bytes: 1n, limit_bytes: 2n * size }), 'OUT_OF_RANGE', /too few/);
      await fails(made({ limit_bytes: size - 1n }), 'OUT_OF_RANGE');
      await fails(made({ required_bytes: size + 1n, limit_bytes: size + 2n }), 'OUT_OF_RANGE');
    }
  });

  test('CV28 CS12: what was rounded up for the source is for its copies, too; no snapshot asks for more', async () => {
    await using driver = await TestDriver.start(sharing);
    for (const [name, required_bytes, restore_bytes] of [
      ['less than ext4 has', 1n * mebibyte, 0n],
      ['a power of ten', 33_000_000n, 33_001_472n - 4095n],
      ['a power of two', 32n * mebibyte, 32n * mebibyte],
    ] as const) {
      const capacity_range = { required_bytes };
      const source_volume_id = await makeVolume(driver, create(name, { ...ext4, capacity_range }));
      const snapshot = snapshotOf(await driver.controller.CreateSnapshot({ source_volume_id, name }));
      assert.equal(snapshot.size_bytes, restore_bytes);
      assert.ok(
        restore_bytes <= required_bytes,
        'the external-provisioner refuses the request that the source was made for',
      );
      for (const volume_content_source of [fromVolume(source_volume_id), fromSnapshot(snapshot.snapshot_id)]) {
        const request = create(randomUUID(), { ...ext4, capacity_range, volume_content_source });
        assert.ok(volumeOf(await driver.controller.CreateVolume(request)).capacity_bytes >= required_bytes);
      }
    }
  });

  test('CV28: a source that has grown counts as it is, its older snapshot as it was', async () => {
    await using driver = await TestDriver.start(sharing);
    const { snapshot, volume } = await madeSources(driver);
    const capacity_range = { required_bytes: 64n * mebibyte };
    await driver.controller.ControllerExpandVolume({ volume_id: volume, capacity_range });
    const sizeOf = async (volume_content_source: Request['volume_content_source']) => {
      const request = create(randomUUID(), { ...ext4, volume_content_source, capacity_range: null });
      return volumeOf(await driver.controller.CreateVolume(request)).capacity_bytes;
    };
    assert.equal(await sizeOf(fromVolume(volume)), 64n * mebibyte);
    assert.equal(await sizeOf(fromSnapshot(snapshot)), 32n * mebibyte);
    assert.equal(snapshotOf(await driver.controller.GetSnapshot({ snapshot_id: snapshot })).size_bytes, 32n * mebibyte);
  });

  test('CV20: without room it is RESOURCE_EXHAUSTED, and nothing is left', async () => {
    await using driver = await TestDriver.start(sharing);
    const { sources, volume } = await madeSources(driver);
    const { available_capacity } = await driver.controller.GetCapacity({});
    const capacity_range = { required_bytes: available_capacity + 64n * mebibyte };
    for (const volume_content_source of sources) {
      const request = create('a', { ...ext4, volume_content_source, capacity_range });
      await fails(driver.controller.CreateVolume(request), 'RESOURCE_EXHAUSTED');
    }
    assert.deepEqual(await listIds(driver), [volume]);
  });
});

describe('CreateVolume from a source again', () => {
  test('CV16 CV17: the same source is a replay, also when it is gone; another one, or none, is ALREADY_EXISTS', async () => {
    await using driver = await TestDriver.start(sharing);
    const { snapshot, volume } = await madeSources(driver);
    const request = create('a', { ...ext4, volume_content_source: fromSnapshot(snapshot) });
    const made = await driver.controller.CreateVolume(request);
    for (const volume_content_source of [null, fromVolume(volume), fromSnapshot(snapshotIdFor(nodeId, 'another'))]) {
      const other = { ...request, volume_content_source };
      await fails(
        driver.controller.CreateVolume(other),
        'ALREADY_EXISTS',
        new RegExp(`made from snapshot ${snapshot}`),
      );
    }
    await driver.controller.DeleteSnapshot({ snapshot_id: snapshot });
    await driver.controller.DeleteVolume({ volume_id: volume });
    assert.deepEqual(await driver.controller.CreateVolume(request), made);
    await makeVolume(driver, create('blank', ext4));
    const blank = create('blank', { ...ext4, volume_content_source: fromSnapshot(snapshot) });
    await fails(driver.controller.CreateVolume(blank), 'ALREADY_EXISTS', /made from nothing/);
  });

  test('K02: 50 equal calls at once make one volume', async () => {
    await using driver = await TestDriver.start(sharing);
    const { snapshot } = await madeSources(driver);
    const request = create('a', { ...ext4, volume_content_source: fromSnapshot(snapshot) });
    const answers = await Promise.all(Array.from({ length: 50 }, () => driver.controller.CreateVolume(request)));
    assert.equal(new Set(answers.map((answer) => volumeOf(answer).volume_id)).size, 1);
    assert.equal((await listIds(driver)).length, 2);
  });

  test('K05: many volumes from one snapshot at once do not wait for each other', async () => {
    await using driver = await TestDriver.start(sharing);
    const { snapshot } = await madeSources(driver);
    // Another call is at work on the snapshot too, without changing it.
    const work = gate();
    const other = driver.objects.claim([{ object: snapshot, isShared: true }], 'SomeCall', () => work.opened);
    const names = Array.from({ length: 20 }, () => randomUUID());
    const made = await Promise.all(
      names.map((name) => makeVolume(driver, create(name, { ...ext4, volume_content_source: fromSnapshot(snapshot) }))),
    );
    assert.equal(new Set(made).size, 20);
    work.open();
    await other;
  });

  test('CV30: a snapshot that is just being cut is waited for, then ABORTED; never partial data', async () => {
    await using driver = await TestDriver.start(sharing);
    await makeVolume(driver, create('source', ext4));
    const sourceId = volumeIdFor(nodeId, 'main', 'source');
    const snapshot = snapshotIdFor(nodeId, 's');
    const request = create('a', { ...ext4, volume_content_source: fromSnapshot(snapshot) });
    const [work, taken, rest] = [gate(), gate(), gate()];
    const cut = driver.objects.run(snapshot, 'CreateSnapshot', 'elsewhere', async () => {
      await work.opened;
      await driver.pool().takeSnapshots([{ id: snapshot, name: 's', sourceId, parameters: {} }]);
      taken.open();
      await rest.opened;
    });
    await fails(driver.controller.CreateVolume(request), 'ABORTED', /CreateSnapshot/);
    work.open();
    await taken.opened;
    const waiting = driver.controller.CreateVolume({ ...request, name: 'b' });
    // On one connection: what is answered came after it.
    await driver.controller.ControllerGetCapabilities({});
    rest.open();
    await cut;
    assert.equal(volumeOf(await waiting).content_source?.snapshot?.snapshot_id, snapshot);
    assert.equal((await listIds(driver)).length, 2);
  });

  test('K04: sources deleted, cut and cloned in a wild mix leave whole volumes or none', async () => {
    await using driver = await TestDriver.start(sharing);
    for (let round = 0; round < 10; round++) {
      const { snapshot, volume } = await madeSources(driver);
      const { controller } = driver;
      const answers = await Promise.allSettled([
        makeVolume(driver, create('a', { ...ext4, volume_content_source: fromSnapshot(snapshot) })),
        controller.DeleteSnapshot({ snapshot_id: snapshot }),
        makeVolume(driver, create('b', { ...ext4, volume_content_source: fromVolume(volume) })),
        makeSnapshot(driver, volume, 't'),
        controller.ControllerExpandVolume({ volume_id: volume, capacity_range: { required_bytes: 48n * mebibyte } }),
        controller.DeleteVolume({ volume_id: volume }),
        makeVolume(driver, create('c', { ...ext4, volume_content_source: fromVolume(volume) })),
      ]);
      for (const answer of answers) {
        if (answer.status === 'fulfilled') continue;
        assert.ok(answer.reason instanceof CallError, `${answer.reason}`);
        assert.ok(['ABORTED', 'NOT_FOUND', 'OUT_OF_RANGE'].includes(answer.reason.code), `${answer.reason}`);
      }
      for (const volume_id of await listIds(driver)) {
        const { status } = await controller.ControllerGetVolume({ volume_id });
        assert.equal(status?.volume_condition?.abnormal, false);
        await controller.DeleteVolume({ volume_id });
      }
      for (const entry of (await controller.ListSnapshots({})).entries) {
        await controller.DeleteSnapshot({ snapshot_id: snapshotOf(entry).snapshot_id });
      }
    }
  });
});
