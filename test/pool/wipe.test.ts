import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { constants, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { type Descriptor, openFile } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { KernelError } from '../../src/kernel/call/errno.ts';
import { Trash } from '../../src/pool/catalog/trash.ts';
import { wipe } from '../../src/pool/wipe/wipe.ts';
import { Wiper } from '../../src/pool/wipe/wiper.ts';
import type { WipePolicy } from '../../src/volume/wipe-policy.ts';
import { eventually } from '../support/eventually.ts';
import { openTestBackend, openTestPool, volumeSpec } from '../support/image-pool.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1 << 20;
const sizeMebibytes = 8;
/** Neither at the beginning nor at the end, and no whole mebibytes. */
const range = { offsetBytes: 1n * BigInt(mebibyte) + 4096n, lengthBytes: 5n * BigInt(mebibyte) + 512n };

interface Disk {
  readonly file: string;
  readonly devicePath: string;
  readonly queue: DiskQueue;
}

/** A disk full of a pattern. */
function fullDisk(scratch: Scratch, name = 'disk'): Disk {
  const file = scratch.join(name);
  writeFileSync(file, Buffer.alloc(sizeMebibytes * mebibyte, 0xa5));
  const devicePath = execFileSync('losetup', ['--find', '--show', file], { encoding: 'utf8' }).trim();
  return { file, devicePath, queue: new DiskQueue('wipe', 2) };
}

function open({ devicePath, queue }: Disk): Promise<Descriptor> {
  return openFile(queue, devicePath, constants.O_RDWR);
}

function assertWiped(bytes: Buffer): void {
  const [from, to] = [Number(range.offsetBytes), Number(range.offsetBytes + range.lengthBytes)];
  assert.ok(
    bytes.subarray(0, from).every((byte) => byte === 0xa5),
    'what lies before it',
  );
  assert.ok(
    bytes.subarray(from, to).every((byte) => byte === 0),
    'the range',
  );
  assert.ok(
    bytes.subarray(to).every((byte) => byte === 0xa5),
    'what lies behind it',
  );
}

describe('wiping a device', () => {
  for (const [policy, method] of [
    ['discard', 'deallocated'],
    ['zero', 'zeroed'],
  ] as const) {
    test(`${policy}: the range reads as zeros, also what was in the page cache, and nothing else does`, async () => {
      using scratch = new Scratch('wipe');
      const disk = fullDisk(scratch);
      // Into the page cache.
      assert.equal(readFileSync(disk.devicePath)[Number(range.offsetBytes)], 0xa5);
      await using device = await open(disk);
      const told: bigint[] = [];
      const onProgress = (doneBytes: bigint) => told.push(doneBytes);
      assert.equal(await wipe({ ...disk, device, range, policy, onProgress }), method);
      assertWiped(readFileSync(disk.devicePath));
      assertWiped(readFileSync(disk.file));
      assert.equal(told.at(-1), range.lengthBytes);
    });
  }

  test('none: nothing is touched', async () => {
    using scratch = new Scratch('wipe');
    const disk = fullDisk(scratch);
    await using device = await open(disk);
    assert.equal(await wipe({ ...disk, device, range, policy: 'none' }), 'none');
    assert.ok(readFileSync(disk.file).every((byte) => byte === 0xa5));
  });

  test('what has no call for zeros is written', async () => {
    using scratch = new Scratch('wipe');
    const queue = new DiskQueue('wipe', 2);
    const file = scratch.join('file');
    writeFileSync(file, Buffer.alloc(sizeMebibytes * mebibyte, 0xa5));
    await using device = await openFile(queue, file, constants.O_RDWR);
    assert.equal(await wipe({ queue, device, range, policy: 'zero' }), 'written');
    assertWiped(readFileSync(file));
  });

  test('what the disk refuses is told, and not tried in another way', async () => {
    using scratch = new Scratch('wipe');
    const disk = fullDisk(scratch);
    await using device = await open(disk);
    for (const policy of ['discard', 'zero'] satisfies WipePolicy[]) {
      const misplaced = { offsetBytes: 100n, lengthBytes: 512n };
      await assert.rejects(wipe({ ...disk, device, range: misplaced, policy }), KernelError);
    }
    assert.ok(readFileSync(disk.file).every((byte) => byte === 0xa5));
  });
});

describe('a wiper', () => {
  test('does as many at a time as it may, tells how far they are, and ends with its pool', async () => {
    using scratch = new Scratch('wipe');
    const [first, second] = [fullDisk(scratch, 'first'), fullDisk(scratch, 'second')];
    const wiper = new Wiper({ poolName: 'test', log: quiet, queue: new DiskQueue('test', 2), atOnce: 1 });
    const stop = new AbortController();
    let goOn: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const policy = 'zero';
    const waiting = wiper.wipe({
      ...{ what: 'first', range, policy, signal: stop.signal },
      open: async () => {
        await gate;
        return open(first);
      },
    });
    const stopped = wiper.wipe({ what: 'second', range, policy, signal: stop.signal, open: () => open(second) });
    const ended = assert.rejects(stopped, { name: 'AbortError' });
    assert.deepEqual(
      wiper.progress().map(({ what, doneBytes, totalBytes }) => [what, totalBytes - doneBytes]),
      [
        ['first', range.lengthBytes],
        ['second', range.lengthBytes],
      ],
    );
    goOn();
    await waiting;
    stop.abort();
    await ended;
    assert.deepEqual(wiper.progress(), []);
    assertWiped(readFileSync(first.file));
  });

  test('what is gone, and what is to stay, needs none', async () => {
    const wiper = new Wiper({ poolName: 'test', log: quiet, queue: new DiskQueue('test', 2), atOnce: 1 });
    await wiper.wipe({ what: 'gone', range, policy: 'zero', open: async () => undefined });
    await wiper.wipe({ what: 'kept', range, policy: 'none', open: () => assert.fail('it was opened') });
  });
});

describe('a trash of a kind that destroys slowly', () => {
  test('nobody waits for it; at the close it is told to stop, and waited for', async () => {
    using scratch = new Scratch('wipe');
    const pool = await openTestPool(scratch, { undeleteSeconds: 3600 });
    for (const name of ['slow', 'other']) await pool.remove((await pool.create(volumeSpec(name))).id);
    await pool.close();
    const queue = new DiskQueue('test', 4);
    const { provisioner, records } = await openTestBackend(scratch, queue);
    const begun = new Set<string>();
    const stopped = new Set<string>();
    const slow = Object.assign(provisioner, {
      destroysSlowly: true,
      destroy: (ref: string, { signal }: { signal: AbortSignal }) =>
        new Promise<void>((_resolve, reject) => {
          begun.add(ref);
          signal.addEventListener('abort', () => {
            stopped.add(ref);
            reject(signal.reason);
          });
        }),
    });
    const onError = (ref: string, error: unknown) => assert.fail(`${ref}: ${error}`);
    const trash = new Trash({ backend: { provisioner: slow, records }, queue, onError });
    await trash.sweep();
    await trash.purgeKept();
    await trash.drained();
    await eventually(async () => assert.equal(begun.size, 2));
    assert.equal(stopped.size, 0);
    await trash.close();
    assert.deepEqual(stopped, begun);
  });
});
