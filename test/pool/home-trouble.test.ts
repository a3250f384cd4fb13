import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, statfsSync } from 'node:fs';
import { describe, test } from 'node:test';
import { openDeviceAlone } from '../../src/kernel/block/block.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { KernelError } from '../../src/kernel/call/errno.ts';
import type { Location } from '../../src/pool/location/location.ts';
import { explainTrouble } from '../../src/pool/location/trouble.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { attachDisk, remountReadOnly, sparseFile } from '../support/disk.ts';
import { DriverProcess } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { fill } from '../support/full.ts';
import { openTestPool } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const gibibyte = 1n << 30n;

/** A filesystem that is not ours, mounted at `disk` of the scratch directory. */
function mountHost(scratch: Scratch): string {
  const directory = scratch.join('disk');
  mkdirSync(directory);
  const device = attachDisk(sparseFile(scratch.join('disk.img'), 512));
  execFileSync('mkfs.ext4', ['-q', device]);
  execFileSync('mount', [device, directory]);
  mkdirSync(`${directory}/data`);
  return directory;
}

function locationsOn(host: string): readonly { readonly location: Location; readonly dataDirectory: string }[] {
  const dataDirectory = `${host}/../data`;
  return [
    { location: { type: 'directory', path: `${host}/pool` }, dataDirectory },
    { location: { type: 'file', path: `${host}/pool.img`, sizeBytes: gibibyte }, dataDirectory },
    { location: { type: 'auto', sizeBytes: gibibyte }, dataDirectory: `${host}/data` },
    { location: { type: 'auto', sizeBytes: undefined }, dataDirectory: `${host}/data` },
    { location: { type: 'auto', sizeBytes: gibibyte }, dataDirectory: `${host}/not/made/yet` },
  ];
}

/** Asserts that the pool cannot be opened, and that its operator is told this. */
async function assertTold(scratch: Scratch, options: Parameters<typeof openTestPool>[1], words: RegExp): Promise<void> {
  await assert.rejects(openTestPool(scratch, options), (error) => {
    assert.ok(error instanceof FailedPrecondition, `${JSON.stringify(options?.location, bigintText)}: ${error}`);
    assert.match(error.message, words);
    assert.ok(error.message.replaceAll(scratch.path, '').length <= 200, error.message);
    return true;
  });
}

function bigintText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value;
}

describe('a pool that cannot be made, or opened, tells why and what to do', () => {
  test('its disk is a plain file, or nothing', async () => {
    using scratch = new Scratch('trouble');
    for (const path of [sparseFile(scratch.join('file'), 1024), scratch.join('nothing')]) {
      await assertTold(scratch, { location: { type: 'device', path } }, /is not a block device of this node/);
    }
  });

  test('its filesystem is read-only', async () => {
    using scratch = new Scratch('trouble');
    const host = mountHost(scratch);
    const words = new RegExp(
      `filesystem at ${host} \\(ext4 on /dev/loop\\d+\\) is mounted read-only.*remount,rw ${host}`,
    );
    await remountReadOnly(host);
    for (const options of locationsOn(host)) await assertTold(scratch, options, words);
    // One that was there before.
    for (const [index, options] of locationsOn(host).slice(0, 2).entries()) {
      execFileSync('mount', ['-o', 'remount,rw', host]);
      const name = `pool${index}`;
      await (await openTestPool(scratch, { ...options, name })).close();
      await remountReadOnly(host);
      await assertTold(scratch, { ...options, name }, words);
    }
  });

  test('its filesystem is full', async () => {
    using scratch = new Scratch('trouble');
    const host = mountHost(scratch);
    fill(`${host}/foreign`);
    const words = new RegExp(`filesystem at ${host} \\(ext4 on /dev/loop\\d+\\) is full: \\w+ free\\. Free some`);
    for (const options of locationsOn(host)) await assertTold(scratch, options, words);
  });

  test('its host is so full that it cannot be mounted', async () => {
    using scratch = new Scratch('trouble');
    const host = mountHost(scratch);
    const error = new KernelError({ syscall: 'fsconfig(FSCONFIG_CMD_CREATE)', errno: 28, path: '/dev/loop0' });
    const trouble = { queue: new DiskQueue('test', 4), poolName: 'test', path: `${host}/pool.img` };
    assert.match(`${await explainTrouble(error, trouble)}`, new RegExp(`filesystem at ${host} .* is full`));
    assert.equal(await explainTrouble(error, { ...trouble, path: '/dev/loop0' }), error);
  });

  test('there is less room on its host than XFS needs', async () => {
    using scratch = new Scratch('trouble');
    const host = mountHost(scratch);
    const { bavail, bsize } = statfsSync(host);
    execFileSync('fallocate', ['--length', `${bavail * bsize - (30 << 20)}`, `${host}/foreign`]);
    const dataDirectory = `${host}/data`;
    const words = new RegExp(`filesystem at ${host} .* is full: .*Mi free\\. Free some`);
    await assertTold(scratch, { location: { type: 'auto', sizeBytes: undefined }, dataDirectory }, words);
    await assertTold(scratch, { location: { type: 'auto', sizeBytes: gibibyte }, dataDirectory }, words);
  });

  test('its disk is too small for XFS, or is read-only, or somebody has it', async () => {
    using scratch = new Scratch('trouble');
    const open = (path: string, words: RegExp) => assertTold(scratch, { location: { type: 'device', path } }, words);
    await open(attachDisk(sparseFile(scratch.join('small.img'), 299)), /has only 299Mi: .*at least 300Mi/);
    const file = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 100n << 20n } as const;
    await assertTold(scratch, { location: file }, /pool\.img has only 100Mi: .*at least 300Mi/);
    await open(attachDisk(sparseFile(scratch.join('ro.img'), 400), '--read-only'), /read-only disk/);
    const held = attachDisk(sparseFile(scratch.join('held.img'), 400));
    await using _somebody = await openDeviceAlone(new DiskQueue('somebody', 1), held);
    await open(held, /is in use: it is mounted/);
    const used = attachDisk(sparseFile(scratch.join('used.img'), 400));
    await (await openTestPool(scratch, { location: { type: 'device', path: used } })).close();
    const readonly = attachDisk(scratch.join('used.img'), '--read-only');
    await open(readonly, /read-only disk/);
    assert.ok(!existsSync(scratch.join('data/pools/test.formatting')));
  });
});

describe('the log of a driver that cannot open a pool', () => {
  test('has the reason and what to do, and no stack', async () => {
    using scratch = new Scratch('trouble');
    const host = mountHost(scratch);
    await remountReadOnly(host);
    const config = `pools: { default: { directory: ${scratch.join('pool')} }, gone: { directory: ${host}/pool } }`;
    await using driver = await DriverProcess.start(scratch, { config });
    // The driver answers before its pools have been tried.
    await eventually(() => {
      const lines = driver.log().filter(({ pool }) => pool === 'gone');
      assert.ok(
        lines.some(({ reason }) => /mounted read-only.*remount,rw/.test(`${reason}`)),
        driver.output(),
      );
    });
    assert.ok(!driver.output().includes('"stack"'), driver.output());
  });
});
