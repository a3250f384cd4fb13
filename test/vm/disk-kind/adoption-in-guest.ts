/**
 * Runs in the virtual machine: what disks and partitions hold of somebody else's becomes volumes, and is as it was before.
 * node adoption-in-guest.ts NAME=DEVICE…
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { extname } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { FailedPrecondition, InvalidArgument, NotFound } from '../../../src/volume/errors.ts';
import {
  blankDisk,
  type DiskTestOptions,
  formatDisk,
  guestDisks,
  openTestDisk,
  shell,
} from '../../support/disk-pool.ts';
import { digestOf } from '../../support/disk-state.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { withMounted } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { adopt, adoptionOperations, notePathIn, release, remove } from './adoption-operations.ts';
import { idOf } from './operations.ts';

const driver = fileURLToPath(new URL(`killed-driver${extname(import.meta.url)}`, import.meta.url));
const diskNamed = (name: string) => guestDisks().get(name) ?? assert.fail(`there is no disk ${name}`);
const usual = diskNamed('usual');
const other = diskNamed('victim');

/** One of 32 MiB, in a table of the kind that all programs read. */
function makePartition(device: string): void {
  const table = Buffer.alloc(512);
  const [linux, firstSector, sectors] = [0x83, 2048, 65_536];
  table.writeUInt8(linux, 450);
  table.writeUInt32LE(firstSector, 454);
  table.writeUInt32LE(sectors, 458);
  table.writeUInt16LE(0xaa55, 510);
  writeFileSync('/run/table', table);
  shell(`dd if=/run/table of=${device} conv=notrunc,fsync status=none; blockdev --rereadpt ${device}
    until [ -b ${device}1 ]; do sleep 0.1; done`);
}

/** Somebody's filesystem with a file of his, mounted by nobody. */
function makeFilesystem(device: string, how?: { readonly mkfs: string }): void {
  blankDisk(device);
  formatDisk(device, how);
}

async function withPool(
  scratch: Scratch,
  work: (pool: Catalog) => Promise<void>,
  { device = usual, ...options }: DiskTestOptions & { readonly device?: string } = {},
): Promise<void> {
  const pool = await openTestDisk(scratch, device, { adopt: true, ...options });
  try {
    await work(pool);
  } finally {
    await pool.close();
  }
}

const dataOf = (scratch: Scratch) => scratch.join('data');

describe('disks and partitions of others', () => {
  for (const mkfs of ['mkfs.ext4 -q -F', 'mkfs.btrfs -q -f --mixed']) {
    test(`the filesystem of ${mkfs} becomes a volume, with all that is in it, and is the same again`, async () => {
      using scratch = new Scratch('adoption');
      makeFilesystem(usual, { mkfs });
      const before = digestOf(usual);
      await withPool(scratch, async (pool) => {
        assert.equal((await pool.capacity()).availableBytes, 0n);
        await assert.rejects(
          pool.create(volumeSpec('new', { content: { type: 'block' }, provisioning: 'thick' })),
          /its disk can be adopted \(holdfast adopt\)/,
        );
        shell(`mount ${usual} /run/his`);
        await assert.rejects(adopt(pool, 'db', usual), /cannot be adopted: it is mounted at \/run\/his/);
        shell('umount /run/his');
      });
      // Not a byte was written so far, by mounts of his neither.
      if (mkfs.includes('ext4')) shell(`e2fsck -fn ${usual}`);
      makeFilesystem(usual, { mkfs });
      const untouched = digestOf(usual);
      assert.notEqual(untouched, before);
      await withPool(scratch, async (pool) => {
        await adopt(pool, 'db', usual);
        assert.equal(digestOf(usual), untouched);
        const record = await pool.find(idOf('db'));
        assert.equal(record?.content.type, 'mount');
        assert.equal(record?.sizeBytes, 68n << 20n);
        assert.deepEqual(record?.adopted, { path: usual });
        await withMounted(pool, idOf('db'), scratch, (mounted) => {
          assert.equal(readFileSync(`${mounted}/file`, 'utf8'), 'precious\n');
          writeFileSync(`${mounted}/more`, 'more');
          assert.throws(() => shell(`mount ${usual} /run/his`), /already mounted|busy|File exists/i);
        });
      });
      // Its section need not say so any more.
      await withPool(
        scratch,
        async (pool) => {
          await assert.rejects(pool.release(idOf('db'), other), InvalidArgument);
          await release(pool, 'db');
          assert.equal(await pool.find(idOf('db')), undefined);
        },
        { adopt: false },
      );
      assert.equal(existsSync(notePathIn(dataOf(scratch))), false);
      shell(`mount ${usual} /run/his`);
      assert.equal(shell('cat /run/his/file /run/his/more'), 'precious\nmore');
      shell('umount /run/his');
    });
  }

  test('a partition is adopted, a disk with partitions is not', async () => {
    using scratch = new Scratch('adoption');
    blankDisk(usual);
    makePartition(usual);
    shell(`mkfs.ext4 -q -F ${usual}1`);
    const before = digestOf(usual);
    await withPool(scratch, async (pool) =>
      assert.rejects(
        adopt(pool, 'db', usual),
        /cannot be adopted: it has 1 partition\. Name that as device instead: \S+1\.$/,
      ),
    );
    await withPool(
      scratch,
      async (pool) => {
        await adopt(pool, 'db', `${usual}1`);
        assert.equal((await pool.find(idOf('db')))?.sizeBytes, 32n << 20n);
      },
      { device: `${usual}1` },
    );
    assert.equal(digestOf(usual), before);
    blankDisk(usual);
  });

  test('what has no signature becomes a raw block volume', async () => {
    using scratch = new Scratch('adoption');
    blankDisk(usual);
    shell(`yes database | head -c 68M | dd of=${usual} conv=fsync status=none`);
    const before = digestOf(usual);
    await withPool(scratch, async (pool) => {
      await adopt(pool, 'raw', usual);
      assert.deepEqual((await pool.find(idOf('raw')))?.content, { type: 'block' });
    });
    assert.equal(digestOf(usual), before);
  });

  test('a blank disk is labelled as without it, and one with a label stays as it is', async () => {
    using scratch = new Scratch('adoption');
    blankDisk(usual);
    for (const _ of [1, 2]) {
      await withPool(scratch, async (pool) => {
        assert.equal((await pool.capacity()).availableBytes, 64n << 20n);
        await assert.rejects(adopt(pool, 'db', usual), /adopts and releases nothing: its disk was blank/);
      });
    }
  });

  const fates: Readonly<Record<string, readonly [shell: string, reason: RegExp, undo?: string]>> = {
    swap: [`mkswap -q ${usual}`, /it holds swap, and no filesystem/],
    LUKS: [
      `printf x | cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 ${usual} -`,
      /it holds crypto_LUKS/,
    ],
    'another filesystem': [
      `mkfs.minix ${usual} >/dev/null`,
      /it holds minix, and no filesystem that a volume can have/,
    ],
    'part of a device of device-mapper': [
      `mkfs.ext4 -q -F ${usual}; echo 0 2048 linear ${usual} 4096 | dmsetup create --noudevsync somebody`,
      /dm-\d+ \(somebody\) is made of it/,
      'dmsetup remove --noudevsync somebody',
    ],
    'open in a process': [
      `mkfs.ext4 -q -F ${usual}; setsid sleep infinity <${usual} >/dev/null 2>&1 & echo $! >/run/pid; sleep 0.2`,
      /process \d+ \(sleep.*\) has it open/,
      'kill -9 $(cat /run/pid)',
    ],
  };
  for (const [what, [prepare, reason, undo]] of Object.entries(fates)) {
    test(`refused: ${what}`, async () => {
      using scratch = new Scratch('adoption');
      blankDisk(usual);
      shell(prepare);
      const before = digestOf(usual);
      try {
        await withPool(scratch, (pool) => assert.rejects(adopt(pool, 'db', usual), reason));
      } finally {
        if (undo !== undefined) shell(undo);
      }
      assert.equal(digestOf(usual), before);
      assert.equal(existsSync(notePathIn(dataOf(scratch))), false);
    });
  }

  test('no other disk is taken for the one that was adopted, nor a filesystem that was made anew', async () => {
    using scratch = new Scratch('adoption');
    makeFilesystem(usual);
    makeFilesystem(other);
    await withPool(scratch, async (pool) => {
      await assert.rejects(adopt(pool, 'db', other), InvalidArgument);
      await assert.rejects(adopt(pool, 'db', '/dev/none'), NotFound);
      await adopt(pool, 'db', usual);
      await assert.rejects(adopt(pool, 'second', usual), FailedPrecondition);
    });
    shell(`dd if=${usual} of=/run/kept bs=1M status=none`);
    const open = (device: string) => openTestDisk(scratch, device, { adopt: true });
    await assert.rejects(open(other), /is another disk .* Put the disk back that was adopted/);
    const note = readFileSync(notePathIn(dataOf(scratch)));
    makeFilesystem(usual);
    await assert.rejects(open(usual), /does not hold the ext4 with UUID/);
    assert.deepEqual(readFileSync(notePathIn(dataOf(scratch))), note);
    shell(`dd if=/run/kept of=${usual} bs=1M conv=fsync status=none; blockdev --flushbufs ${usual}`);
    // The driver's own directory is lost: it is adopted again, and is the same volume.
    rmSync(notePathIn(dataOf(scratch)));
    await withPool(scratch, async (pool) => {
      await adopt(pool, 'db', usual);
      await withMounted(pool, idOf('db'), scratch, (mounted) => {
        assert.equal(readFileSync(`${mounted}/file`, 'utf8'), 'precious\n');
      });
    });
  });

  test('device-mapper of somebody else over it: the volume is not attached', async () => {
    using scratch = new Scratch('adoption');
    makeFilesystem(usual);
    await withPool(scratch, async (pool) => {
      await adopt(pool, 'db', usual);
      shell(`echo 0 2048 linear ${usual} 4096 | dmsetup create --noudevsync somebody`);
      await assert.rejects(
        withMounted(pool, idOf('db'), scratch, () => undefined),
        /\(somebody\) is made of .*, too, and is not this pool's/,
      );
      shell('dmsetup remove --noudevsync somebody');
      await withMounted(pool, idOf('db'), scratch, () => undefined);
    });
  });

  test('what is deleted can be brought back; what is wiped leaves a blank disk, which has a label at the next start', async () => {
    using scratch = new Scratch('adoption');
    makeFilesystem(usual);
    await withPool(scratch, async (pool) => {
      await adopt(pool, 'db', usual);
      await pool.modify(idOf('db'), { undeleteSeconds: 3600 });
      await pool.remove(idOf('db'));
    });
    await withPool(scratch, async (pool) => {
      await pool.restore(idOf('db'));
      await withMounted(pool, idOf('db'), scratch, (mounted) => {
        assert.equal(readFileSync(`${mounted}/file`, 'utf8'), 'precious\n');
      });
      await pool.modify(idOf('db'), { undeleteSeconds: 0 });
      await remove(pool, 'db', dataOf(scratch));
      assert.equal((await pool.capacity()).availableBytes, 0n);
    });
    assert.equal(shell(`tr -d '\\0' <${usual} | wc -c`).trim(), '0');
    await withPool(scratch, async (pool) => {
      await eventually(async () => assert.equal((await pool.capacity()).availableBytes, 64n << 20n));
    });
  });

  for (const operationName of Object.keys(adoptionOperations({ path: '', dataDirectory: '' }))) {
    test(`T03: ${operationName}: killed anywhere, it is one or the other, whole, and can be done again`, async (t) => {
      const drive = (dataDirectory: string, ...point: readonly string[]) => {
        mkdirSync(dataDirectory, { recursive: true });
        const words = [driver, usual, dataDirectory, operationName, 'db', ...point];
        return spawnSync(process.execPath, words, { encoding: 'utf8' });
      };
      const withPrepared = async (work: (scratch: Scratch, dataDirectory: string) => Promise<void>) => {
        using scratch = new Scratch('killed');
        makeFilesystem(usual);
        const dataDirectory = dataOf(scratch);
        const operation = adoptionOperations({ path: usual, dataDirectory })[operationName];
        await withPool(scratch, async (pool) => {
          await operation?.prepare?.(pool, 'db');
        });
        await work(scratch, dataDirectory);
        await withPool(scratch, async (pool) => {
          // What was deleted may be wiped by now, and the disk labelled.
          if (operationName !== 'remove-adopted' || (await pool.find(idOf('db'))) !== undefined)
            await operation?.run(pool, 'db');
          await operation?.check(pool, 'db');
        });
      };
      let steps: string[] = [];
      await withPrepared(async (_, dataDirectory) => {
        const counted = drive(dataDirectory);
        assert.equal(counted.status, 0, counted.stderr);
        steps = JSON.parse(counted.stdout.trim());
      });
      t.diagnostic(steps.join(' '));
      const passes = new Map<string, number>();
      for (const step of steps) {
        const pass = (passes.get(step) ?? 0) + 1;
        passes.set(step, pass);
        for (const when of ['before', 'after']) {
          await withPrepared(async (_, dataDirectory) => {
            const killed = drive(dataDirectory, when, step, `${pass}`);
            assert.equal(killed.signal, 'SIGKILL', `${when} ${step} ${pass}: ${killed.stderr}`);
          });
        }
      }
    });
  }
});
