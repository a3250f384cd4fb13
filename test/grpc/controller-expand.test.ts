import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { attachDevice } from '../../src/pool/attached-device.ts';
import { parseVolumeId, type VolumeId, volumeIdFor } from '../../src/volume/id.ts';
import { maximumVolumeBytes } from '../../src/volume/size.ts';
import { Scratch } from '../support/scratch.ts';
import { block, create, fails, mebibyte, mount, nodeId, TestDriver, volumeOf } from './controller-driver.ts';

type Request = Draft<wire.ControllerExpandVolumeRequest>;

const size = 32n * mebibyte;

async function madeVolume(driver: TestDriver, capability = mount('ext4')): Promise<VolumeId> {
  const request = create('a', { volume_capabilities: [capability], capacity_range: { required_bytes: size } });
  const id = parseVolumeId(volumeOf(await driver.controller.CreateVolume(request)).volume_id);
  assert.ok(id);
  return id;
}

function deviceBytes(devicePath: string): bigint {
  return BigInt(readFileSync(`/sys/class/block/${devicePath.replace('/dev/', '')}/size`, 'utf8').trim()) * 512n;
}

describe('ControllerExpandVolume', () => {
  const expanded: Record<string, readonly [Request, bigint]> = {
    'CE03: to exactly what is asked': [{ capacity_range: { required_bytes: 64n * mebibyte } }, 64n * mebibyte],
    'CE03: rounded up': [{ capacity_range: { required_bytes: 64n * mebibyte + 1n } }, 64n * mebibyte + 4096n],
    'CE04: not at all when it is large enough': [{ capacity_range: { required_bytes: mebibyte } }, size],
    'CE04: not at all for a limit alone': [{ capacity_range: { limit_bytes: 1n << 40n } }, size],
    'CE06: with the capability it has': [
      { capacity_range: { required_bytes: 64n * mebibyte }, volume_capability: mount() },
      64n * mebibyte,
    ],
  };
  for (const [what, [request, bytes]] of Object.entries(expanded)) {
    test(`${what}, the same on a replay and wherever the size is shown`, async () => {
      await using driver = await TestDriver.start();
      const volume_id = await madeVolume(driver);
      const answer = { capacity_bytes: bytes, node_expansion_required: true };
      assert.deepEqual(await driver.controller.ControllerExpandVolume({ volume_id, ...request }), answer);
      assert.deepEqual(await driver.controller.ControllerExpandVolume({ volume_id, ...request }), answer); // CE09
      assert.equal((await driver.controller.ControllerGetVolume({ volume_id })).volume?.capacity_bytes, bytes);
      const { entries } = await driver.controller.ListVolumes({});
      assert.equal(entries[0]?.volume?.capacity_bytes, bytes);
    });
  }

  const refused: Record<string, readonly [code: string, Request]> = {
    'CE01: no id': ['INVALID_ARGUMENT', { volume_id: '', capacity_range: { required_bytes: 64n * mebibyte } }],
    'CE02: no capacity_range for a volume that exists': ['INVALID_ARGUMENT', {}],
    'CV04: an empty capacity_range': ['INVALID_ARGUMENT', { capacity_range: {} }],
    'L11: a negative size': ['INVALID_ARGUMENT', { capacity_range: { required_bytes: -1n } }],
    'CE06: a capability it has not': [
      'INVALID_ARGUMENT',
      { capacity_range: { required_bytes: 64n * mebibyte }, volume_capability: block() },
    ],
    'CE06: another filesystem': [
      'INVALID_ARGUMENT',
      { capacity_range: { required_bytes: 64n * mebibyte }, volume_capability: mount('xfs') },
    ],
    'A05: several nodes': [
      'INVALID_ARGUMENT',
      { capacity_range: { required_bytes: 64n * mebibyte }, volume_capability: mount('', 'MULTI_NODE_MULTI_WRITER') },
    ],
    'CE04: a limit below its size': ['OUT_OF_RANGE', { capacity_range: { limit_bytes: size - 1n } }],
    'CE08: rounding up beyond the limit': [
      'OUT_OF_RANGE',
      { capacity_range: { required_bytes: size + 1n, limit_bytes: size + 2n } },
    ],
    'CE08: more than a volume can have': [
      'OUT_OF_RANGE',
      { capacity_range: { required_bytes: maximumVolumeBytes + 1n } },
    ],
    'CE08 R27: more than the pool has': ['OUT_OF_RANGE', { capacity_range: { required_bytes: 1n << 50n } }],
  };
  for (const [what, [code, request]] of Object.entries(refused)) {
    test(`${what} is ${code}, and the volume keeps its size`, async () => {
      await using driver = await TestDriver.start();
      const volume_id = await madeVolume(driver);
      await fails(driver.controller.ControllerExpandVolume({ volume_id, ...request }), code);
      assert.equal((await driver.controller.ControllerGetVolume({ volume_id })).volume?.capacity_bytes, size);
    });
  }

  test('CE05: an unknown volume is NOT_FOUND', async () => {
    await using driver = await TestDriver.start();
    for (const volume_id of [volumeIdFor(nodeId, 'main', 'never'), '../../etc', 'x']) {
      const call = driver.controller.ControllerExpandVolume({ volume_id, capacity_range: { required_bytes: size } });
      await fails(call, 'NOT_FOUND');
    }
  });

  test('CE10 CE09: a block volume in use grows with its device, and the node has nothing to do', async () => {
    await using driver = await TestDriver.start();
    const volume_id = await madeVolume(driver, block());
    const attached = await attachDevice(driver.pool(), volume_id, { persistent: true });
    await attached.release();
    assert.equal(deviceBytes(attached.devicePath), size);
    const capacity_range = { required_bytes: 2n * size };
    const answer = await driver.controller.ControllerExpandVolume({ volume_id, capacity_range });
    assert.deepEqual(answer, { capacity_bytes: 2n * size, node_expansion_required: false });
    assert.equal(deviceBytes(attached.devicePath), 2n * size);
    await driver.pool().detach(attached);
  });

  for (const isAttached of [false, true]) {
    test(`R30: an ext4 that cannot grow so far keeps its size and its data${isAttached ? ', attached' : ''}`, async () => {
      const scratch = new Scratch('controller');
      const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 2n << 30n } as const;
      await using driver = await TestDriver.start({ pools: { main: { location, overcommit: 1_000_000 } } }, scratch);
      const volume_id = await madeVolume(driver);
      const attached = isAttached ? await attachDevice(driver.pool(), volume_id, { persistent: true }) : undefined;
      await attached?.release();
      const expand = (required_bytes: bigint) =>
        driver.controller.ControllerExpandVolume({ volume_id, capacity_range: { required_bytes } });
      await fails(expand(4n << 40n), 'OUT_OF_RANGE');
      assert.equal(
        await driver
          .pool()
          .find(volume_id)
          .then((record) => record?.sizeBytes),
        size,
      );
      if (attached) assert.equal(deviceBytes(attached.devicePath), size);
      assert.equal((await expand(1n << 40n)).capacity_bytes, 1n << 40n);
      if (attached) await driver.pool().detach(attached);
    });
  }

  test('CE03: the new size lasts over a restart', async () => {
    await using before = await TestDriver.start();
    const volume_id = await madeVolume(before);
    await before.controller.ControllerExpandVolume({ volume_id, capacity_range: { required_bytes: 2n * size } });
    await using driver = await TestDriver.start({}, await before.stop());
    assert.equal((await driver.controller.ControllerGetVolume({ volume_id })).volume?.capacity_bytes, 2n * size);
  });

  test('K01: equal calls at once are one expansion', async () => {
    await using driver = await TestDriver.start();
    const volume_id = await madeVolume(driver);
    const capacity_range = { required_bytes: 2n * size };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => driver.controller.ControllerExpandVolume({ volume_id, capacity_range })),
    );
    assert.deepEqual(new Set(answers.map((answer) => answer.capacity_bytes)), new Set([2n * size]));
  });
});
