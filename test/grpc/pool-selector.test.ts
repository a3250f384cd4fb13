import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseVolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import {
  create,
  fails,
  fromSnapshot,
  gate,
  gibibyte,
  makeSnapshot,
  makeVolume,
  mebibyte,
  TestDriver,
  type TestDriverOptions,
} from './controller-driver.ts';

/** `small` and `large` have filesystems of their own, so that nobody else's files change which has the most room. */
function twoDisks(scratch: Scratch): TestDriverOptions {
  const disk = (name: string, gibibytes: bigint) => ({
    location: { type: 'file', path: scratch.join(`${name}.img`), sizeBytes: gibibytes * gibibyte } as const,
  });
  return {
    pools: { main: {}, small: disk('small', 1n), large: disk('large', 2n) },
    labels: { main: { media: 'disk' }, small: { media: 'nvme', tier: 'gold' }, large: { media: 'nvme' } },
  };
}

async function start(): Promise<TestDriver> {
  const scratch = new Scratch('controller');
  return TestDriver.start(twoDisks(scratch), scratch);
}

const where = (poolSelector: string) => ({ parameters: { poolSelector } });

async function poolOf({ pools }: TestDriver, text: string): Promise<string> {
  const id = parseVolumeId(text);
  assert.ok(id !== undefined);
  return (await pools.require(id)).pool.name;
}

describe('a class that says what its pool must be like', () => {
  test('has volumes where there is the most room, in one of the pools with these labels', async () => {
    await using driver = await start();
    const first = await makeVolume(driver, create('a', where('media=nvme')));
    assert.equal(await poolOf(driver, first), 'large');
    const gold = await makeVolume(driver, create('b', where('tier=gold,media=nvme')));
    assert.equal(await poolOf(driver, gold), 'small');
    // Now the other one has more.
    const much = { parameters: { pool: 'large' }, capacity_range: { required_bytes: 1536n * mebibyte } };
    await makeVolume(driver, create('much', much));
    assert.equal(await poolOf(driver, await makeVolume(driver, create('c', where('media=nvme')))), 'small');
    // CV14: what was made stays the answer.
    assert.equal(await makeVolume(driver, create('a', where('media=nvme'))), first);
  });

  test('GC03: has the capacity of the roomiest of them, and no sum', async () => {
    await using driver = await start();
    const capacity = async (parameters: Record<string, string>) =>
      (await driver.controller.GetCapacity({ parameters })).available_capacity;
    const large = await capacity({ pool: 'large' });
    assert.ok(large > gibibyte);
    assert.equal(await capacity({ poolSelector: 'media=nvme' }), large);
    assert.equal(await capacity({ poolSelector: 'tier=gold' }), await capacity({ pool: 'small' }));
    assert.equal(await capacity({ poolSelector: 'media=tape' }), 0n);
  });

  test('CV20: has no volume where no pool is like that, or none has the room', async () => {
    await using driver = await start();
    const tape = driver.controller.CreateVolume(create('a', where('media=tape')));
    await fails(
      tape,
      'RESOURCE_EXHAUSTED',
      /no pool of node node-1 has the labels media=tape\. Its pools: main, small/,
    );
    const huge = create('a', { ...where('media=nvme'), capacity_range: { required_bytes: 3n * gibibyte } });
    await fails(driver.controller.CreateVolume(huge), 'RESOURCE_EXHAUSTED', /cannot provision/);
    await fails(driver.controller.CreateVolume(create('a', where('media'))), 'INVALID_ARGUMENT', /poolSelector/);
  });

  test('CV16: is no other class: one name is not given twice', async () => {
    await using driver = await start();
    const id = await makeVolume(driver, create('a', where('media=nvme')));
    const other = driver.controller.CreateVolume(create('a', where('media=disk')));
    await fails(other, 'ALREADY_EXISTS', /its poolSelector is media=nvme/);
    const same = await driver.controller.ValidateVolumeCapabilities({
      volume_id: id,
      volume_capabilities: create('a').volume_capabilities ?? [],
      ...where('media=disk'),
    });
    assert.match(same.message, /another poolSelector/);
  });

  test('CV26: has clones in the pool of their source, if that is like that', async () => {
    await using driver = await start();
    const source = await makeVolume(driver, create('a', where('tier=gold')));
    const volume_content_source = fromSnapshot(await makeSnapshot(driver, source, 's'));
    const clone = await makeVolume(driver, create('b', { ...where('media=nvme'), volume_content_source }));
    assert.equal(await poolOf(driver, clone), 'small');
    const elsewhere = driver.controller.CreateVolume(create('c', { ...where('media=disk'), volume_content_source }));
    await fails(elsewhere, 'INVALID_ARGUMENT', /is in pool small.*instead of media=disk/);
  });

  test('passes over a pool that is broken, and says so if it is the only one', async () => {
    const scratch = new Scratch('controller');
    await using driver = await TestDriver.start({ ...twoDisks(scratch), failing: { small: 'it is gone' } }, scratch);
    assert.equal(await poolOf(driver, await makeVolume(driver, create('a', where('media=nvme')))), 'large');
    const gold = driver.controller.CreateVolume(create('b', where('tier=gold')));
    await fails(gold, 'UNAVAILABLE', /small/);
  });

  test('CV14: waits for a pool that is being opened: a first try may have made the volume there', async () => {
    const before = await start();
    const id = await makeVolume(before, create('a', where('media=nvme')));
    const scratch = await before.stop();
    const { opened, open } = gate();
    await using driver = await TestDriver.start({ ...twoDisks(scratch), slow: { large: opened } }, scratch);
    try {
      await eventually(() => assert.equal(driver.pools.all().length, 2));
      await fails(driver.controller.CreateVolume(create('a', where('media=nvme'))), 'UNAVAILABLE', /large/);
      await fails(driver.controller.GetCapacity(where('media=nvme')), 'UNAVAILABLE', /large/);
    } finally {
      open();
    }
    await eventually(() => assert.equal(driver.pools.all().length, 3));
    assert.equal(await makeVolume(driver, create('a', where('media=nvme'))), id);
  });

  test('takes no pool that cannot encrypt, where that is wanted', async () => {
    const scratch = new Scratch('controller');
    const { labels, pools } = twoDisks(scratch);
    await using driver = await TestDriver.start({ labels: labels ?? {}, pools: pools ?? {} }, scratch);
    const parameters = { poolSelector: 'media=nvme', encryption: 'luks2' };
    // These pools have no layer that encrypts.
    assert.equal((await driver.controller.GetCapacity({ parameters })).available_capacity, 0n);
  });
});
