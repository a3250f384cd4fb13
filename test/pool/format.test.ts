import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { describe, test } from 'node:test';
import { identifyDisk } from '../../src/kernel/block/disk-identity.ts';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { deviceNumber } from '../../src/kernel/device.ts';
import { isMountedAnywhere } from '../../src/kernel/mount/mounted-device.ts';
import { attachDevice } from '../../src/pool/attached-device.ts';
import { FormatMarker } from '../../src/pool/location/format-marker.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { SeededRandom } from '../crash/seeded-random.ts';
import { Child } from '../support/child.ts';
import { attachDisk, digestOf, nameDisk, pieces, replaceProgram, sparseFile } from '../support/disk.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { whileMounted } from '../support/while-mounted.ts';

const queue = new DiskQueue('test', 4);
/** For programs in other mount namespaces to let go of what is mounted here: on a busy machine it takes them long to begin. */
const namespacePatienceMs = 60_000;

const marker = (scratch: Scratch) => scratch.join('data/pools/test.formatting');

/** A disk with somebody's files on it. */
function foreignDisk(scratch: Scratch, name = 'foreign.img'): string {
  const image = sparseFile(scratch.join(name), 400);
  execFileSync('mkfs.ext4', ['-q', image]);
  return image;
}

describe('a format that fails', () => {
  test('ST09: another disk under the same name is not formatted, and not changed', async () => {
    for (const failure of ['mkfs fails', 'the disk is too small', 'mkfs is not installed'] as const) {
      using scratch = new Scratch('format');
      const blank = attachDisk(sparseFile(scratch.join('blank.img'), failure === 'the disk is too small' ? 100 : 400));
      const location = { type: 'device', path: nameDisk(scratch, 'sdb', blank) } as const;
      const script = failure === 'mkfs is not installed' ? 'exit 127' : 'exit 1';
      {
        using _broken = failure === 'the disk is too small' ? undefined : replaceProgram(scratch, 'mkfs.xfs', script);
        await assert.rejects(openTestPool(scratch, { location }));
      }
      const foreign = foreignDisk(scratch);
      const before = digestOf(foreign);
      nameDisk(scratch, 'sdb', attachDisk(foreign));
      await assert.rejects(openTestPool(scratch, { location }), (error) => {
        assert.ok(error instanceof FailedPrecondition, `${failure}: ${error}`);
        assert.match(error.message, /not blank: it holds filesystem \(ext4\)/);
        return true;
      });
      assert.equal(digestOf(foreign), before);
      assert.equal(existsSync(marker(scratch)), false, `${failure}: the marker goes`);
      // The blank one is still a pool to be.
      if (failure === 'the disk is too small') continue;
      nameDisk(scratch, 'sdb', blank);
      const pool = await openTestPool(scratch, { location });
      await pool.create(volumeSpec('works'));
      await pool.close();
    }
  });

  test('leaves no draft of a backing file', async () => {
    using scratch = new Scratch('format');
    const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 1n << 30n } as const;
    using _broken = replaceProgram(scratch, 'mkfs.xfs', 'exit 1');
    await assert.rejects(openTestPool(scratch, { location }));
    const left = readdirSync(scratch.path).filter((name) => name.startsWith('pool.img'));
    assert.deepEqual(left, []);
  });

  test('what others have left of a backing file goes when there is one, and nothing else', async () => {
    using scratch = new Scratch('format');
    const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 1n << 30n } as const;
    for (const name of ['pool.img.0123456789ab.new', 'pool.img.new', 'pool.img.mine.new', 'other.new']) {
      writeFileSync(scratch.join(name), '');
    }
    await (await openTestPool(scratch, { location })).close();
    const left = readdirSync(scratch.path).filter((name) => name.endsWith('.new'));
    assert.deepEqual(left.sort(), ['other.new', 'pool.img.mine.new']);
  });

  test('what it has written goes, and the marker; the disk is blank again for the next try', async () => {
    using scratch = new Scratch('format');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 400));
    const location = { type: 'device', path } as const;
    {
      using _failing = replaceProgram(scratch, 'mkfs.xfs', '$real "$@"; echo no more >&2; exit 1');
      await assert.rejects(openTestPool(scratch, { location }), /no more/);
    }
    assert.equal(existsSync(marker(scratch)), false);
    assert.equal(uuidOf(path), '');
    const pool = await openTestPool(scratch, { location });
    await pool.create(volumeSpec('works'));
    await pool.close();
  });
});

describe('a blank disk that another program is formatting', () => {
  test('ST09: is not formatted when that program has come to its end', async () => {
    using scratch = new Scratch('format');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 400));
    const foreign = foreignDisk(scratch);
    // As mkfs does: it has the disk for itself, and writes while the driver waits for it to let go.
    await using _other = await Child.start(['python3', '-c', slowFormat, path, foreign], { tells: true });
    await assert.rejects(
      openTestPool(scratch, { location: { type: 'device', path } }),
      /not blank: it holds filesystem \(ext4\)/,
    );
    const beginningOf = (image: string) => execFileSync('head', ['--bytes', '1M', image], { encoding: 'latin1' });
    assert.ok(beginningOf(path) === beginningOf(foreign));
  });
});

const slowFormat = `
import os, sys, time
disk = os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)
print('ready', flush=True)
time.sleep(0.4)
os.write(disk, open(sys.argv[2], 'rb').read(1 << 20))
os.fsync(disk)
os.close(disk)
time.sleep(600)
`;

describe('a format that begins', () => {
  test('has been marked, with the UUID that mkfs is told', async () => {
    using scratch = new Scratch('format');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 400));
    using _looking = replaceProgram(
      scratch,
      'mkfs.xfs',
      `cat ${marker(scratch)} >${scratch.join('seen')}; exec $real "$@"`,
    );
    const pool = await openTestPool(scratch, { location: { type: 'device', path } });
    await pool.close();
    assert.equal(JSON.parse(readFileSync(scratch.join('seen'), 'utf8')).uuid, uuidOf(path));
    assert.ok(!existsSync(marker(scratch)));
  });

  test('ST09: and fails takes nothing back but what it has written itself', async () => {
    using scratch = new Scratch('format');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 400));
    const write = `printf 'a database' | dd of=${path} bs=4096 seek=150 conv=notrunc,fsync 2>/dev/null`;
    using _failing = replaceProgram(scratch, 'mkfs.xfs', `$real "$@"; ${write}; exit 1`);
    await assert.rejects(openTestPool(scratch, { location: { type: 'device', path } }));
    const content = Array.from(pieces(scratch.join('disk.img')), ({ bytes }) => bytes.includes('a database'));
    assert.ok(content.includes(true));
  });
});

describe('a format that was cut short', () => {
  test('is done again, whatever a power cut has left of it', async () => {
    using scratch = new Scratch('format');
    const whole = wholeFormat(scratch);
    const random = new SeededRandom(20261122);
    const isOneOf = (blocks: readonly number[]) => (block: number) => blocks.includes(block);
    const keeps: readonly ((block: number) => boolean)[] = [
      isOneOf([0]),
      (block) => block !== 0,
      // Complete as it says itself, and yet without what was still on its way: headers, the log, the root directory.
      ...[1, 16, 25600, 51206].map((lost) => (block: number) => block !== lost),
      () => true,
      ...Array.from({ length: 6 }, () => () => random.below(2) === 0),
    ];
    for (const [index, keep] of keeps.entries()) {
      for (const inProgress of index < 3 ? [1, 0] : [index % 2]) {
        using place = new Scratch('format');
        const image = copyBlocks(whole, place.join('disk.img'), keep, inProgress);
        const path = attachDisk(image);
        await setMarker(place, path, formatUuid);
        const pool = await openTestPool(place, { location: { type: 'device', path } });
        await pool.create(volumeSpec('works'));
        await pool.close();
        assert.equal(existsSync(marker(place)), false);
        // Whoever looks at all loop devices of the machine may have kept it mounted. And a program that is started in a mount
        // namespace of its own beside this test has a copy of the mount for a moment: until that goes the log is not empty.
        await eventually(() => {
          for (const mount of place.mounts()) execFileSync('umount', [mount]);
          assert.ok(!isMountedAnywhere('xfs', path), `case ${index}: mounted in another mount namespace`);
        }, namespacePatienceMs);
        const checked = spawnSync('xfs_repair', ['-n', path], { encoding: 'utf8' });
        assert.equal(checked.status, 0, `case ${index}: ${checked.stderr}${checked.stdout} ${place.mounts()}`);
        assert.notEqual(uuidOf(path), formatUuid, `case ${index}: made anew`);
      }
    }
  });

  test('ST09: what cannot be shown to be left of it is not formatted, and not changed', async () => {
    using scratch = new Scratch('format');
    const whole = wholeFormat(scratch);
    const half = (block: number) => block !== 0;
    const cases: Readonly<Record<string, (scratch: Scratch) => Promise<string>>> = {
      'no marker': async (place) => attachDisk(copyBlocks(whole, place.join('disk.img'), half, 1)),
      'a marker of an older driver, which has no more than the path': async (place) => {
        const path = attachDisk(copyBlocks(whole, place.join('disk.img'), half, 1));
        mkdirSync(place.join('data/pools'), { recursive: true });
        writeFileSync(marker(place), path);
        return path;
      },
      'the marker is of another disk': async (place) => {
        await setMarker(place, attachDisk(sparseFile(place.join('other.img'), 400)), formatUuid);
        return attachDisk(copyBlocks(whole, place.join('disk.img'), half, 1));
      },
      'the disk has another size now': async (place) => {
        const image = copyBlocks(whole, place.join('disk.img'), half, 1);
        const path = attachDisk(image);
        await setMarker(place, path, formatUuid);
        sparseFile(image, 500);
        execFileSync('losetup', ['--set-capacity', path]);
        return path;
      },
      'mkfs was told another UUID': async (place) => {
        const path = attachDisk(copyBlocks(whole, place.join('disk.img'), half, 1));
        await setMarker(place, path, '99999999-2222-4333-8444-555555555555');
        return path;
      },
      'one block is of somebody else': async (place) => {
        const path = attachDisk(copyBlocks(whole, place.join('disk.img'), half, 1));
        await setMarker(place, path, formatUuid);
        overwrite(path, Buffer.from('a database'), 600 << 10);
        return path;
      },
      ...Object.fromEntries(
        (['mkfs.ext4 -q -F', 'mkfs.btrfs -q -f', 'mkswap --force'] as const).map((command) => [
          `somebody used it since: ${command}`,
          async (place: Scratch) => {
            const path = attachDisk(copyBlocks(whole, place.join('disk.img'), half, 1));
            await setMarker(place, path, formatUuid);
            const [program = '', ...args] = command.split(' ');
            execFileSync(program, [...args, path], { stdio: 'ignore' });
            return path;
          },
        ]),
      ),
    };
    for (const [name, prepare] of Object.entries(cases)) {
      using place = new Scratch('format');
      const path = await prepare(place);
      execFileSync('sync', [path]);
      const before = digestOf(place.join('disk.img'));
      await assert.rejects(openTestPool(place, { location: { type: 'device', path } }), (error) => {
        assert.ok(error instanceof FailedPrecondition, `${name}: ${error}`);
        assert.match(error.message, /not blank.*wipefs/, name);
        return true;
      });
      assert.equal(digestOf(place.join('disk.img')), before, name);
      // By that an older driver would format whatever has the path by then.
      const hasPath = existsSync(marker(place)) && !readFileSync(marker(place), 'utf8').startsWith('{');
      assert.equal(hasPath, false, name);
    }
  });

  test('a pool that was used is kept, though a marker says that its format was cut short', async () => {
    using scratch = new Scratch('format');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 400));
    const location = { type: 'device', path } as const;
    const first = await openTestPool(scratch, { location });
    const { id } = await first.create(volumeSpec('kept'));
    await first.close();
    // As after the node's own disk was put back from a backup.
    await setMarker(scratch, path, uuidOf(path));
    const second = await openTestPool(scratch, { location });
    assert.equal((await second.find(id))?.name, 'kept');
    await second.close();
    assert.equal(existsSync(marker(scratch)), false);
  });

  test('an XFS that somebody made on the disk since stays as it is', async () => {
    using scratch = new Scratch('format');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 400));
    await setMarker(scratch, path, formatUuid);
    execFileSync('mkfs.xfs', ['-q', path]);
    const uuid = uuidOf(path);
    mkdirSync(scratch.join('mnt'));
    execFileSync('mount', [path, scratch.join('mnt')]);
    writeFileSync(scratch.join('mnt/letters.txt'), 'dear');
    execFileSync('umount', [scratch.join('mnt')]);
    await assert.rejects(openTestPool(scratch, { location: { type: 'device', path } }), /not empty.*letters\.txt/);
    assert.equal(uuidOf(path), uuid);
  });

  test("an XFS with somebody else's files is not made larger, nor is its file", async () => {
    for (const type of ['device', 'file'] as const) {
      using scratch = new Scratch('format');
      const image = sparseFile(scratch.join('disk.img'), 1024);
      execFileSync('mkfs.xfs', ['-q', '-d', 'size=400m', image]);
      const { blocks } = whileMounted(image, scratch.join('mnt'), () => {
        writeFileSync(scratch.join('mnt/letters.txt'), 'dear');
        return statfsSync(scratch.join('mnt'));
      });
      const location =
        type === 'device' ? { type, path: attachDisk(image) } : { type, path: image, sizeBytes: 2n << 30n };
      await assert.rejects(openTestPool(scratch, { location }), /not empty.*letters\.txt/);
      assert.equal(statSync(image).size, 1 << 30, type);
      execFileSync(
        'mount',
        type === 'device' ? [location.path, scratch.join('mnt')] : ['-o', 'loop', image, scratch.join('mnt')],
      );
      assert.equal(statfsSync(scratch.join('mnt')).blocks, blocks, type);
    }
  });

  test('one that was mounted and used since, if only once, stays as it is', async () => {
    using scratch = new Scratch('format');
    const path = attachDisk(wholeFormat(scratch));
    await setMarker(scratch, path, formatUuid);
    mkdirSync(scratch.join('mnt'));
    execFileSync('mount', [path, scratch.join('mnt')]);
    writeFileSync(scratch.join('mnt/x'), '');
    execFileSync('umount', [scratch.join('mnt')]);
    await assert.rejects(openTestPool(scratch, { location: { type: 'device', path } }), /not empty.*'x'/);
    assert.equal(uuidOf(path), formatUuid);
    assert.equal(existsSync(marker(scratch)), false);
  });
});

const formatUuid = '11111111-2222-4333-8444-555555555555';
const blockBytes = 4096;

/** All that mkfs.xfs writes to a disk of 400 MiB when it is told this UUID. */
function wholeFormat(scratch: Scratch): string {
  const image = sparseFile(scratch.join('whole.img'), 400);
  const device = attachDisk(image);
  execFileSync('mkfs.xfs', ['-q', '-K', '-s', 'size=512', '-m', `uuid=${formatUuid}`, device]);
  execFileSync('sync', [device]);
  return image;
}

/** Some of the blocks of an image in a new one, and in its superblock whether mkfs has come to its end. */
function copyBlocks(from: string, to: string, keep: (block: number) => boolean, inProgress: number): string {
  sparseFile(to, statSync(from).size / (1 << 20));
  const target = openSync(to, 'r+');
  for (const { at, bytes } of pieces(from)) {
    for (let offset = 0; offset < bytes.length; offset += blockBytes) {
      const block = bytes.subarray(offset, offset + blockBytes);
      const number = (at + offset) / blockBytes;
      if (block.every((byte) => byte === 0) || !keep(number)) continue;
      if (number === 0) block[126] = inProgress;
      writeSync(target, block, 0, blockBytes, at + offset);
    }
  }
  closeSync(target);
  return to;
}

function overwrite(path: string, bytes: Buffer, at: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, at);
  closeSync(file);
}

function uuidOf(device: string): string {
  // It has an exit code of its own for a disk without any.
  const { stdout } = spawnSync('blkid', ['--probe', '--match-tag', 'UUID', '--output', 'value', device], {
    encoding: 'utf8',
  });
  return stdout.trim();
}

async function setMarker(scratch: Scratch, path: string, uuid: string): Promise<void> {
  mkdirSync(scratch.join('data/pools'), { recursive: true });
  await using device = await openReadOnly(queue, path);
  const disk = await identifyDisk(queue, device, deviceNumber(statSync(path, { bigint: true }).rdev));
  await new FormatMarker(queue, scratch.join('data/pools'), 'test').set({ disk, uuid });
}

describe('a disk with sectors of 4096 bytes', () => {
  test('a blank one becomes a pool, and its volumes can be used', async () => {
    using scratch = new Scratch('format');
    const path = attachDisk(sparseFile(scratch.join('disk.img'), 1024), '--sector-size', '4096');
    const pool = await openTestPool(scratch, { location: { type: 'device', path } });
    const { blockSizeBytes, id } = await pool.create(volumeSpec('v'));
    assert.equal(blockSizeBytes, 4096);
    const { devicePath, release } = await attachDevice(pool, id, { persistent: false });
    execFileSync('e2fsck', ['-f', '-n', devicePath], { stdio: 'ignore' });
    const mounted = scratch.join('mounted');
    mkdirSync(mounted);
    execFileSync('mount', [devicePath, mounted]);
    execFileSync('umount', [mounted]);
    await release();
    await pool.close();
  });
});
