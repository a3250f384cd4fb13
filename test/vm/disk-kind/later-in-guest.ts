/**
 * Runs in the virtual machine: what becomes of a disk that was adopted, and that somebody else uses later, while the pool is open.
 * node later-in-guest.ts NAME=DEVICE…
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import type { PoolLog } from '../../../src/pool/log.ts';
import { blankDisk, guestDisks, openTestDisk, shell } from '../../support/disk-pool.ts';
import { eventually } from '../../support/eventually.ts';
import { withMounted } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { adopt, release } from './adoption-operations.ts';
import { idOf } from './operations.ts';

const usual = guestDisks().get('usual') ?? assert.fail('there is no disk usual');

function makeFilesystem(mkfs: string, word: string): void {
  shell(
    `${mkfs} ${usual}; mkdir -p /run/his; mount ${usual} /run/his; echo ${word} >/run/his/file; sync; umount /run/his`,
  );
}

function digest(): string {
  shell(`blockdev --flushbufs ${usual}`);
  return shell(`sha256sum < ${usual}`);
}

/** What the pool has told of what it could not wipe. */
type Refusals = readonly string[];

async function withPool(scratch: Scratch, work: (pool: Catalog, refusals: Refusals) => Promise<void>): Promise<void> {
  const refusals: string[] = [];
  const ignore = () => undefined;
  const log: PoolLog = {
    info: ignore,
    warn: ignore,
    error: ({ err }, message) => refusals.push(`${message}: ${String(err)}`),
  };
  const pool = await openTestDisk(scratch, usual, { adopt: true, log });
  try {
    await work(pool, refusals);
  } finally {
    await pool.close();
  }
}

/** Until the wipe was tried, and was not done. */
function refused(refusals: Refusals): Promise<void> {
  return eventually(() =>
    assert.match(refusals.join('\n'), /cannot destroy what was deleted.*does not hold the ext4 with UUID/),
  );
}

describe('a disk that was adopted, and that somebody has formatted while its pool is open', () => {
  test('it is not wiped when the volume is deleted', async () => {
    using scratch = new Scratch('later');
    blankDisk(usual);
    makeFilesystem('mkfs.ext4 -q -F', 'precious');
    await withPool(scratch, async (pool, refusals) => {
      await adopt(pool, 'db', usual);
      makeFilesystem('mkfs.ext4 -q -F', 'another');
      const before = digest();
      await pool.remove(idOf('db'));
      await refused(refusals);
      assert.equal(digest(), before, "somebody's new filesystem was written over");
    });
  });

  test('what is in the trash is not wiped either, after its time', async () => {
    using scratch = new Scratch('later');
    blankDisk(usual);
    makeFilesystem('mkfs.ext4 -q -F', 'precious');
    await withPool(scratch, async (pool, refusals) => {
      await adopt(pool, 'db', usual);
      await pool.modify(idOf('db'), { undeleteSeconds: 5 });
      await pool.remove(idOf('db'));
      makeFilesystem('mkfs.ext4 -q -F', 'another');
      const before = digest();
      await refused(refusals);
      assert.equal(digest(), before, "somebody's new filesystem was written over");
    });
  });

  test('it is not mounted as the volume', async () => {
    using scratch = new Scratch('later');
    blankDisk(usual);
    makeFilesystem('mkfs.ext4 -q -F', 'precious');
    await withPool(scratch, async (pool) => {
      await adopt(pool, 'db', usual);
      makeFilesystem('mkfs.ext4 -q -F', 'another');
      await assert.rejects(
        withMounted(pool, idOf('db'), scratch, (mounted) => {
          assert.notEqual(readFileSync(`${mounted}/file`, 'utf8'), 'another\n', 'mounted as the volume');
        }),
        /does not hold/,
      );
    });
  });

  test('a second pool of the same driver does not adopt the disk', async () => {
    using scratch = new Scratch('later');
    blankDisk(usual);
    makeFilesystem('mkfs.ext4 -q -F', 'precious');
    await withPool(scratch, async (pool) => {
      await adopt(pool, 'db', usual);
      const other = await openTestDisk(scratch, usual, { adopt: true, name: 'second' });
      try {
        await assert.rejects(
          adopt(other, 'db', usual),
          /cannot be adopted: it is the volume of another pool .*test\.adopted/,
        );
        await release(pool, 'db');
        await adopt(other, 'db', usual);
        await release(other, 'db');
      } finally {
        await other.close();
      }
    });
  });
});
