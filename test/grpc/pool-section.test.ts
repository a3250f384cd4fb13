import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { parseVolumeId } from '../../src/volume/id.ts';
import { Scratch } from '../support/scratch.ts';
import { create, fails, gibibyte, makeVolume, mebibyte, TestDriver } from './controller-driver.ts';

/** `fast` stands for `fast-a` and `fast-b`, which have filesystems of their own; `main` is the default pool. */
async function start(): Promise<TestDriver> {
  const scratch = new Scratch('controller');
  const disk = (name: string, gibibytes: bigint) => ({
    location: { type: 'file', path: scratch.join(`${name}.img`), sizeBytes: gibibytes * gibibyte } as const,
  });
  return TestDriver.start(
    {
      pools: { main: {}, 'fast-a': disk('a', 1n), 'fast-b': disk('b', 2n) },
      sections: { 'fast-a': 'fast', 'fast-b': 'fast' },
    },
    scratch,
  );
}

const fast = { parameters: { pool: 'fast' } };

async function poolOf({ pools }: TestDriver, text: string): Promise<string> {
  const id = parseVolumeId(text) ?? assert.fail();
  return (await pools.require(id)).pool.name;
}

describe('a section that stands for several pools', () => {
  test('is any of them to a class, and a second try finds the volume of the first', async () => {
    await using driver = await start();
    driver.pools.settle();
    const id = await makeVolume(driver, create('a', fast));
    assert.equal(await poolOf(driver, id), 'fast-b');
    const much = { parameters: { pool: 'fast-b' }, capacity_range: { required_bytes: 1536n * mebibyte } };
    await makeVolume(driver, create('much', much));
    assert.equal(await makeVolume(driver, create('a', fast)), id);
    assert.equal(await poolOf(driver, await makeVolume(driver, create('b', fast))), 'fast-a');
    const { available_capacity } = await driver.controller.GetCapacity(fast);
    assert.equal(
      available_capacity,
      (await driver.controller.GetCapacity({ parameters: { pool: 'fast-a' } })).available_capacity,
    );
    await fails(
      driver.controller.CreateVolume(create('a', { parameters: { pool: 'main' } })),
      'ALREADY_EXISTS',
      /fast-b/,
    );
    const { confirmed } = await driver.controller.ValidateVolumeCapabilities({
      volume_id: id,
      volume_capabilities: create('a').volume_capabilities ?? [],
      ...fast,
    });
    assert.ok(confirmed !== null);
    assert.throws(() => driver.pools.get('fast'), /stands for several disks/);
  });

  test('DV08: as long as its disks are looked for nothing is said to be gone', async () => {
    await using driver = await start();
    const volume_id = `vol-${'a'.repeat(26)}`;
    const get = () => driver.controller.ControllerGetVolume({ volume_id });
    await fails(get(), 'UNAVAILABLE', /are still being looked for/);
    await fails(driver.controller.CreateVolume(create('a', fast)), 'UNAVAILABLE', /are still being looked for/);
    // LV04
    await fails(driver.controller.ListVolumes({}), 'UNAVAILABLE', /are still being looked for/);
    assert.equal(driver.pools.ready(), false);
    driver.pools.settle();
    await fails(get(), 'NOT_FOUND', /There is no volume/);
    assert.equal(driver.pools.ready(), true);
  });

  test('gets another pool only if that could be opened, or could have volumes all the same', async () => {
    await using driver = await start();
    const refuse = async () => {
      throw new FailedPrecondition('it is gone');
    };
    const names = () => driver.pools.names().length;
    assert.match(String(await driver.pools.add('fast-c', refuse, async () => false)), /it is gone/);
    assert.equal(names(), 3);
    assert.match(String(await driver.pools.add('fast-c', refuse, async () => true)), /it is gone/);
    assert.equal(names(), 4);
    assert.throws(() => driver.pools.get('fast-c'), /could not be opened: it is gone/);
  });
});
