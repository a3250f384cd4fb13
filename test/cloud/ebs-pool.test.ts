import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { ebs, openCloudPool, type PoolOptions } from './clouds.ts';
import type { FakeEc2 } from './ec2/fake-ec2.ts';
import { poolTests } from './suite/pool.ts';

/* A pool of EBS volumes, on a fake of EC2. */

poolTests(ebs);

describe('what only EBS has', () => {
  const gibibyte = 1n << 30n;
  const spec = (name: string) => volumeSpec(name, { sizeBytes: gibibyte });
  let scratch: Scratch;
  let ec2: FakeEc2;
  let pool: Catalog;

  beforeEach(async () => {
    scratch = new Scratch('ebs-pool');
    ec2 = await ebs.start();
    for (const machine of ebs.machines) ec2.instance(machine);
    pool = await openCloudPool(ebs, scratch, ec2.url);
  });
  afterEach(async () => {
    await pool.close();
    await ec2[Symbol.asyncDispose]();
    scratch[Symbol.dispose]();
  });

  const publisher = () => pool.cluster?.publisher ?? assert.fail();
  const onlyVolume = () => [...ec2.volumes.values()][0] ?? assert.fail();

  async function reopen(options: PoolOptions): Promise<void> {
    await pool.close();
    pool = await openCloudPool(ebs, scratch, ec2.url, options);
  }

  test('the console shows the name of its claim', async () => {
    await pool.create(spec('a'));
    assert.equal(onlyVolume().tags['Name'], 'a');
  });

  test('an attachment that is stuck is ended, and made again under another name', async () => {
    const record = await pool.create(spec('a'));
    await reopen({ pace: { waitMs: 100, stuckMs: 50 } });
    ec2.stuckNames.add('i-00000001 /dev/xvdaa');
    let tries = 0;
    const attach = (): Promise<unknown> =>
      publisher()
        .publish(record, 'i-00000001')
        .catch((error: unknown) => {
          assert.ok(error instanceof Unavailable, String(error));
          assert.ok(++tries < 10);
          return attach();
        });
    await attach();
    assert.notEqual(onlyVolume().attachment?.device, '/dev/xvdaa');
    assert.equal(onlyVolume().attachment?.status, 'attached');
  });

  test('volumes that are attached at once get names of their own', async () => {
    await reopen({ pace: { settleMs: 200, bornMs: 400 } });
    const records = await Promise.all(Array.from({ length: 12 }, (_, number) => pool.create(spec(`v${number}`))));
    ec2.troubles = { ...ec2.troubles, lateMs: 50, workMs: 20 };
    await Promise.all(records.map((record) => publisher().publish(record, 'i-00000001')));
    const devices = [...ec2.volumes.values()].map(({ attachment }) => attachment?.device);
    assert.equal(new Set(devices).size, 12);
  });
});
