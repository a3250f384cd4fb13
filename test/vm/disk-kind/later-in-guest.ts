/**
 * Runs in the virtual machine: what becomes of a disk that was adopted, and that somebody else uses later, while the pool is open.
 * node later-in-guest.ts NAME=DEVICE…
 */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, test } from 'node:test';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import { blankDisk, formatDisk, guestDisks, openTestDisk, shell } from '../../support/disk-pool.ts';
import { digestOf } from '../../support/disk-state.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { withMounted } from '../../support/mounted-volume.ts';
import { keepErrors } from '../../support/pool-log.ts';
import { Scratch } from '../../support/scratch.ts';
import { adopt, release } from './adoption-operations.ts';
import { idOf } from './operations.ts';

const usual = guestDisks().get('usual') ?? assert.fail('there is no disk usual');

interface Adopted {
  readonly pool: Catalog;
  readonly scratch: Scratch;
  /** Until the wipe was tried, and was not done. */
  refused(): Promise<void>;
}

/** With the pool of a disk whose filesystem is the volume `db`. */
async function withAdopted(work: (adopted: Adopted) => Promise<void>): Promise<void> {
  using scratch = new Scratch('later');
  blankDisk(usual);
  formatDisk(usual);
  const errors: string[] = [];
  const pool = await openTestDisk(scratch, usual, { adopt: true, log: keepErrors(errors) });
  const refused = () =>
    eventually(() =>
      assert.match(errors.join('\n'), /cannot destroy a deleted volume or snapshot.*does not hold the ext4 with UUID/),
    );
  try {
    await adopt(pool, 'db', usual);
    await work({ pool, scratch, refused });
  } finally {
    await pool.close();
  }
}

/** Somebody else's filesystem is in the place of the volume's. @returns the digest of the disk */
function formatAnew(): string {
  formatDisk(usual, { text: 'another' });
  return digestOf(usual);
}

describe('a disk that was adopted, and that somebody has formatted while its pool is open', () => {
  test('it is not wiped when the volume is deleted', () =>
    withAdopted(async ({ pool, refused }) => {
      const before = formatAnew();
      await pool.remove(idOf('db'));
      await refused();
      assert.equal(digestOf(usual), before, "somebody's new filesystem was written over");
    }));

  test('what is in the trash is not wiped either, after its time', () =>
    withAdopted(async ({ pool, refused }) => {
      await pool.modify(idOf('db'), { undeleteSeconds: 5 });
      await pool.remove(idOf('db'));
      const before = formatAnew();
      await refused();
      assert.equal(digestOf(usual), before, "somebody's new filesystem was written over");
    }));

  test('it is not mounted as the volume', () =>
    withAdopted(async ({ pool, scratch }) => {
      formatAnew();
      await assert.rejects(
        withMounted(pool, idOf('db'), scratch, (mounted) => {
          assert.notEqual(readFileSync(`${mounted}/file`, 'utf8'), 'another\n', 'mounted as the volume');
        }),
        /does not hold/,
      );
    }));

  test('a second pool of the same driver does not adopt the disk', () =>
    withAdopted(async ({ pool, scratch }) => {
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
    }));
});

test('what is written to a deleted volume by who has it open is wiped before the next one can be made', async () => {
  using scratch = new Scratch('later');
  blankDisk(usual);
  const errors: string[] = [];
  const pool = await openTestDisk(scratch, usual, { wipe: 'zero', log: keepErrors(errors) });
  const spec = volumeSpec('late', { content: { type: 'block' }, sizeBytes: 64n << 20n, undeleteSeconds: 3600 });
  await pool.create(spec);
  const attachment = await attachDevice(pool, spec.id, { persistent: true });
  await attachment.release();
  const of = (attribute: string) => shell(`cat /sys/block/${basename(attachment.devicePath)}/dm/${attribute}`).trim();
  const [name, uuid] = [of('name'), of('uuid')];
  const table = shell(`dmsetup table ${name}`).trim();
  await pool.detach(attachment);
  await pool.remove(spec.id);

  shell(`dmsetup create --noudevsync --uuid ${uuid} --table '${table}' ${name}`);
  const minor = shell(`dmsetup info --columns --noheadings -o minor ${name}`).trim();
  const late = openSync(`/dev/dm-${minor}`, 'r+');
  await pool.purge(spec.id);
  await eventually(() => assert.match(errors.join('\n'), /was deleted and is still open/));
  writeSync(late, 'what nobody may see');
  fsyncSync(late);
  closeSync(late);
  await eventually(async () => assert.ok((await pool.capacity()).availableBytes > 0n), 300_000);
  assert.ok(!readFileSync(usual).includes('what nobody may see'));
  await pool.close();
});
