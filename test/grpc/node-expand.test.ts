import '../support/without-sys-resource.ts';
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { NodeHarness, rejects, run, sizeKiB } from '../support/node-harness.ts';
import { blockCapability, filesystems, mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-expand');
});
after(() => harness[Symbol.asyncDispose]());

const gibibyte = 1n << 30n;
const ext4 = { type: 'mount', fsType: 'ext4' } as const;

describe('NodeExpandVolume', () => {
  for (const { fsType, sizeBytes } of filesystems.filter(({ fsType }) => fsType !== 'ext4')) {
    test(`NE04, NE05: ${fsType}: grows where it is published or staged, with its data`, async () => {
      const volume = await harness.volume(`online-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await volume.stage();
      writeFileSync(join(volume.staging, 'file'), 'kept');
      assert.deepEqual(await volume.expand(gibibyte / 2n, volume.staging), { capacity_bytes: gibibyte / 2n });
      assert.ok(sizeKiB(volume.staging) > 440 * 1024);
      await volume.publish();
      assert.deepEqual(await volume.expand(gibibyte), { capacity_bytes: gibibyte });
      assert.ok(sizeKiB(volume.target) > 900 * 1024, `${sizeKiB(volume.target)}`);
      assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'kept');
      await volume.down();
    });
  }

  test('NE08: ext4 without CAP_SYS_RESOURCE: says that it grows at its next stage, and it does', async () => {
    const volume = await harness.volume('offline', ext4);
    await volume.stage();
    await volume.publish();
    writeFileSync(join(volume.target, 'file'), 'kept');
    for (let i = 0; i < 2; i++)
      await rejects(volume.expand(gibibyte), 'FAILED_PRECONDITION', /when its pods are started again/);
    await volume.down();
    await volume.stage();
    await volume.publish();
    assert.ok(sizeKiB(volume.target) > 900 * 1024);
    assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'kept');
    assert.deepEqual(await volume.expand(gibibyte), { capacity_bytes: gibibyte });
    await volume.down();
  });

  test('NE11: block: its device grows, writable and read-only', async () => {
    const volume = await harness.volume('block', { type: 'block' });
    const volume_capability = blockCapability('SINGLE_NODE_MULTI_WRITER');
    const second = `${volume.target}-second`;
    await volume.stage({ volume_capability });
    await volume.publish({ volume_capability });
    await volume.publish({ volume_capability, target_path: second });
    assert.deepEqual(await volume.expand(gibibyte), { capacity_bytes: gibibyte });
    for (const path of [volume.target, second, join(volume.staging, volume.id)]) {
      assert.equal(run('blockdev', '--getsize64', path), `${gibibyte}`);
    }
    assert.deepEqual(await volume.expand(2n * gibibyte, volume.staging), { capacity_bytes: 2n * gibibyte });
    await volume.unpublish(second);
    await volume.unpublish();
    await volume.publish({ volume_capability, readonly: true });
    assert.deepEqual(await volume.expand(3n * gibibyte), { capacity_bytes: 3n * gibibyte });
    assert.equal(run('blockdev', '--getsize64', volume.target), `${3n * gibibyte}`);
    await volume.down();
  });

  test('NE06: large enough already, no size named, a size that is no multiple: fine, and never smaller', async () => {
    const volume = await harness.volume('enough', { type: 'mount', fsType: 'xfs' }, { sizeBytes: 320n << 20n });
    await volume.stage();
    await volume.publish();
    for (const size of [undefined, 1n, 4096n, 320n << 20n]) {
      assert.deepEqual(await volume.expand(size), { capacity_bytes: 320n << 20n });
    }
    assert.deepEqual(await volume.expand((400n << 20n) + 1n), { capacity_bytes: (400n << 20n) + 4096n });
    await volume.down();
  });

  test('NE06: what the pool has grown already', async () => {
    const volume = await harness.volume('controller', { type: 'mount', fsType: 'xfs' }, { sizeBytes: 320n << 20n });
    await volume.stage();
    await volume.publish();
    await harness.pool.grow(volume.id, gibibyte);
    assert.deepEqual(await volume.expand(undefined), { capacity_bytes: gibibyte });
    assert.ok(sizeKiB(volume.target) > 900 * 1024);
    await volume.down();
  });

  test('a read-only target: through the writable mount that there is', async () => {
    const volume = await harness.volume('readonly', { type: 'mount', fsType: 'xfs' }, { sizeBytes: 320n << 20n });
    await volume.stage();
    await volume.publish({ readonly: true });
    await volume.expand(gibibyte);
    assert.ok(sizeKiB(volume.target) > 900 * 1024);
    await volume.down();
  });

  for (const { fsType, sizeBytes } of filesystems) {
    test(`PB19 NE05: ${fsType}: a volume that is mounted read-only everywhere grows too`, async () => {
      const content = { type: 'mount', fsType } as const;
      const volume = await harness.volume(`reader-${fsType}`, content, { sizeBytes });
      const readerOnly = { volume_capability: mountCapability('SINGLE_NODE_READER_ONLY') };
      await harness.pool.grow(volume.id, gibibyte / 2n);
      await volume.stage(readerOnly);
      assert.ok(sizeKiB(volume.staging) > 440 * 1024, `${sizeKiB(volume.staging)}`);
      assert.ok(harness.mountsAt(volume.staging)[0]?.options.includes('ro'));
      await volume.publish(readerOnly);
      // A mounted ext4 cannot grow here, however it is mounted.
      if (fsType === 'ext4') await rejects(volume.expand(gibibyte), 'FAILED_PRECONDITION', /CAP_SYS_RESOURCE/);
      else {
        assert.deepEqual(await volume.expand(gibibyte), { capacity_bytes: gibibyte });
        assert.ok(sizeKiB(volume.target) > 900 * 1024);
        await harness.pool.grow(volume.id, 2n * gibibyte);
        await volume.stage(readerOnly);
        assert.ok(sizeKiB(volume.target) > 1900 * 1024);
      }
      for (const path of [volume.target, volume.staging]) {
        assert.throws(() => writeFileSync(join(path, 'file'), ''), { code: 'EROFS' });
      }
      await volume.down();
    });
  }

  test('NE03: an unknown volume, with a relative path too', async () => {
    for (const volume_id of ['x', '../x', 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa']) {
      const call = harness.node.NodeExpandVolume({ volume_id, volume_path: 'some/path' });
      await rejects(call, 'NOT_FOUND');
    }
  });

  test('NE10: the volume is not at that path', async () => {
    const volume = await harness.volume('elsewhere', ext4);
    await rejects(volume.expand(gibibyte), 'NOT_FOUND');
    await volume.stage();
    for (const path of ['relative', volume.pod, volume.target, '/', '/etc']) {
      await rejects(volume.expand(gibibyte, path), 'NOT_FOUND');
    }
    assert.equal((await harness.pool.find(volume.id))?.sizeBytes, 64n << 20n);
    await volume.unstage();
  });

  test('NE07: a capability that the volume has not', async () => {
    const volume = await harness.volume('capability', ext4);
    await volume.stage();
    const ask = (volume_capability: ReturnType<typeof mountCapability>) =>
      harness.node.NodeExpandVolume({ volume_id: volume.id, volume_path: volume.staging, volume_capability });
    await rejects(ask(blockCapability()), 'INVALID_ARGUMENT');
    await rejects(ask(mountCapability('SINGLE_NODE_WRITER', [], 'xfs')), 'INVALID_ARGUMENT');
    await rejects(ask(mountCapability('MULTI_NODE_MULTI_WRITER')), 'INVALID_ARGUMENT');
    await ask(mountCapability('SINGLE_NODE_WRITER', [], 'ext4'));
    await volume.unstage();
  });

  test('NE09: sizes that no volume has, and ranges that nothing fits', async () => {
    const volume = await harness.volume('range', ext4);
    await volume.stage();
    const ask = (capacity_range: { required_bytes?: bigint; limit_bytes?: bigint }) =>
      harness.node.NodeExpandVolume({ volume_id: volume.id, volume_path: volume.staging, capacity_range });
    await rejects(ask({ required_bytes: (1n << 63n) - 1n }), 'OUT_OF_RANGE');
    await rejects(ask({ limit_bytes: 4096n }), 'OUT_OF_RANGE');
    await rejects(ask({ required_bytes: (64n << 20n) + 1n, limit_bytes: (64n << 20n) + 2n }), 'OUT_OF_RANGE');
    await rejects(ask({ required_bytes: 2n, limit_bytes: 1n }), 'INVALID_ARGUMENT');
    await rejects(ask({ required_bytes: -1n }), 'INVALID_ARGUMENT');
    await rejects(ask({ required_bytes: 1n << 60n }), 'OUT_OF_RANGE');
    assert.equal((await harness.pool.find(volume.id))?.sizeBytes, 64n << 20n);
    await volume.unstage();
  });

  test('K01: at once with other calls: one after the other', async () => {
    const volume = await harness.volume('at-once', { type: 'mount', fsType: 'xfs' }, { sizeBytes: 320n << 20n });
    await volume.stage();
    const sizes = [400n, 500n, 450n].map((mebibytes) => mebibytes << 20n);
    const answers = await Promise.all(sizes.map((size) => volume.expand(size, volume.staging)));
    for (const [i, { capacity_bytes }] of answers.entries()) assert.ok(capacity_bytes >= (sizes[i] ?? 0n));
    assert.equal((await harness.pool.find(volume.id))?.sizeBytes, 500n << 20n);
    await volume.unstage();
  });
});
