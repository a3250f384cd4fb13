import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { deviceNumber } from '../../src/kernel/device.ts';
import { holdDisk } from '../../src/pool/kinds/lvm/group/taken-disk.ts';
import { locateDevice } from '../../src/pool/location/disk/found-disk.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { Child } from '../support/child.ts';
import { attachDisk, digestOf, nameDisk, sparseFile } from '../support/disk.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { whileMounted } from '../support/while-mounted.ts';

/** Bytes of somebody's in an image. */
function put(image: string, text: string, atBytes: number): void {
  execFileSync('dd', [`of=${image}`, 'bs=1', `seek=${atBytes}`, 'conv=notrunc,fsync', 'status=none'], { input: text });
}

/** An XFS of somebody else. @param isDirty its machine died: what it has last is in its log alone */
function foreignXfs(scratch: Scratch, isDirty: boolean, name = 'foreign.img'): string {
  const image = sparseFile(scratch.join(name), 400);
  execFileSync('mkfs.xfs', ['-q', image]);
  whileMounted(image, scratch.join('mnt'), () => {
    writeFileSync(scratch.join('mnt/letters.txt'), 'dear');
    if (isDirty) execFileSync('xfs_io', ['-x', '-c', 'shutdown -f', scratch.join('mnt')]);
  });
  return image;
}

/** The pool is not opened, and the disk stays as it is. */
async function refused(scratch: Scratch, image: string, path: string, reason: RegExp): Promise<void> {
  execFileSync('sync', [path]);
  const before = digestOf(image);
  await assert.rejects(openTestPool(scratch, { location: { type: 'device', path } }), (error) => {
    assert.ok(error instanceof FailedPrecondition, String(error));
    assert.match(error.message, reason);
    return true;
  });
  execFileSync('sync', [path]);
  assert.equal(digestOf(image), before, `${reason}`);
}

/** A pool that this node knows. @returns the name of its disk */
async function knownPool(scratch: Scratch): Promise<string> {
  const path = nameDisk(scratch, 'sdb', attachDisk(sparseFile(scratch.join('own.img'), 400)));
  const pool = await openTestPool(scratch, { location: { type: 'device', path } });
  await pool.create(volumeSpec('precious'));
  await pool.close();
  return path;
}

describe('a pool that the node knows, and another disk under the name of its own', () => {
  test('DK02: a blank one is not formatted', async () => {
    using scratch = new Scratch('foreign');
    const path = await knownPool(scratch);
    const image = sparseFile(scratch.join('raw.img'), 400);
    put(image, 'a database', 200 << 20);
    nameDisk(scratch, 'sdb', attachDisk(image));
    await refused(scratch, image, path, /this node had pool \S+ here, but \S+ has no pool now/);
  });

  test("DK05: somebody's XFS is not mounted for writing, whether its log is empty or not", async () => {
    for (const isDirty of [false, true]) {
      using scratch = new Scratch('foreign');
      const path = await knownPool(scratch);
      const image = foreignXfs(scratch, isDirty);
      nameDisk(scratch, 'sdb', attachDisk(image));
      await refused(scratch, image, path, /this node had pool \S+ here, but \S+ has no pool now/);
    }
  });

  test('DK05: its own one is found after a crash, by what is not in its log', async () => {
    using scratch = new Scratch('foreign');
    const device = attachDisk(sparseFile(scratch.join('own.img'), 400));
    const path = nameDisk(scratch, 'sdb', device);
    const pool = await openTestPool(scratch, { location: { type: 'device', path } });
    const { id } = await pool.create(volumeSpec('precious'));
    // As at a power cut: what was synced is on the disk, and in its log.
    execFileSync('xfs_io', ['-x', '-c', 'shutdown -f', scratch.join('data/pools/test')]);
    await pool.close().catch(() => undefined);
    const again = await openTestPool(scratch, { location: { type: 'device', path } });
    assert.equal((await again.find(id))?.name, 'precious');
    await again.close();
  });

  test('DK04: neither a backing file nor a directory is made anew where its disk is not mounted', async () => {
    for (const type of ['file', 'directory'] as const) {
      using scratch = new Scratch('foreign');
      const place = scratch.join('disk');
      mkdirSync(place);
      const path = `${place}/pool`;
      const location = type === 'file' ? ({ type, path, sizeBytes: 1n << 30n } as const) : ({ type, path } as const);
      await (await openTestPool(scratch, { location })).close();
      for (const name of readdirSync(place)) rmSync(`${place}/${name}`, { recursive: true });
      await assert.rejects(openTestPool(scratch, { location }), /this node had pool \S+ here, but \S+ has no pool now/);
      assert.deepEqual(readdirSync(place), []);
    }
  });
});

describe('a disk that looks blank, and is not, or not free', () => {
  test('DK03: what lies at its end keeps it from being formatted', async () => {
    using scratch = new Scratch('foreign');
    const image = sparseFile(scratch.join('disk.img'), 400);
    put(image, 'the copy of a table', (400 << 20) - 512);
    await refused(scratch, image, attachDisk(image), /cannot be taken: it holds data of an unknown kind/);
  });

  test('DK03: so does a process that has it open', async () => {
    using scratch = new Scratch('foreign');
    const image = sparseFile(scratch.join('disk.img'), 400);
    const path = attachDisk(image);
    const program =
      "import os, sys, time; disk = os.open(sys.argv[1], os.O_RDWR); print('ready', flush=True); time.sleep(600)";
    await using machine = await Child.start(['python3', '-c', program, path], { tells: true });
    await refused(scratch, image, path, new RegExp(`process ${machine.pid} \\(python3.*\\) has it open`));
  });

  test('a program that has it open for a moment only, as udev has, keeps no pool from it', async () => {
    using scratch = new Scratch('foreign');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 400));
    const program =
      "import os, sys, time; disk = os.open(sys.argv[1], os.O_RDONLY); print('ready', flush=True); time.sleep(0.7); os.close(disk); time.sleep(600)";
    await using _reader = await Child.start(['python3', '-c', program, path], { tells: true });
    const pool = await openTestPool(scratch, { location: { type: 'device', path } });
    await pool.close();
  });

  test('DK03: and a pod that its node is mounted for', async () => {
    using scratch = new Scratch('foreign');
    const image = sparseFile(scratch.join('disk.img'), 400);
    const path = attachDisk(image);
    writeFileSync(scratch.join('block'), '');
    execFileSync('mount', ['--bind', path, scratch.join('block')]);
    try {
      await refused(scratch, image, path, /it is mounted at \S+\/block/);
    } finally {
      execFileSync('umount', [scratch.join('block')]);
    }
  });

  test('DK09: and a loop device over it', async () => {
    using scratch = new Scratch('foreign');
    const image = sparseFile(scratch.join('disk.img'), 400);
    const path = attachDisk(image);
    const loop = attachDisk(path, '--offset', '1048576');
    try {
      await refused(scratch, image, path, /loop\d+ is made of it/);
    } finally {
      execFileSync('losetup', ['--detach', loop]);
    }
  });

  test('DK06: an empty XFS that somebody has mounted', async () => {
    using scratch = new Scratch('foreign');
    const image = sparseFile(scratch.join('disk.img'), 400);
    execFileSync('mkfs.xfs', ['-q', image]);
    const path = attachDisk(image);
    mkdirSync(scratch.join('his'));
    execFileSync('mount', [path, scratch.join('his')]);
    try {
      await assert.rejects(
        openTestPool(scratch, { location: { type: 'device', path } }),
        /is in use: it is mounted, and holds no pool/,
      );
      assert.deepEqual(readdirSync(scratch.join('his')), []);
      assert.ok(!existsSync(scratch.join('data/pools/test.id')));
    } finally {
      execFileSync('umount', [scratch.join('his')]);
    }
  });
});

test('H28: a disk for a volume group is looked at as it is when it is taken, not as it was when it was found', async () => {
  using scratch = new Scratch('foreign');
  const queue = new DiskQueue('test', 2);
  const path = attachDisk(sparseFile(scratch.join('pv.img'), 64));
  const found = await locateDevice(queue, path, deviceNumber(statSync(path, { bigint: true }).rdev));
  execFileSync('blockdev', ['--setro', path]);
  await assert.rejects(
    holdDisk({ queue, isNamed: true, poolName: 'test' }, found, undefined),
    /cannot be taken: it is read-only/,
  );
});
