/**
 * Runs in the virtual machine: logical volumes of others become volumes, and volumes theirs.
 * node adoption-in-guest.ts DISK…
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Pool } from '../../../src/pool/pool.ts';
import { FailedPrecondition, InvalidArgument, NotFound } from '../../../src/volume/errors.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { groupFor, guestArguments, lvm, openTestLvm } from '../../support/lvm-pool.ts';
import { withMounted } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { adopt, adoptionOperations, makeOutside, outsidePath, release, tagsOutside } from './adoption-operations.ts';
import { idOf } from './operations.ts';

const { disks } = guestArguments();
const driver = fileURLToPath(new URL(`killed-driver${extname(import.meta.url)}`, import.meta.url));
const shell = (command: string) => execFileSync('sh', ['-c', command], { encoding: 'utf8' });

/** The group is the same for one scratch directory. */
async function withPool(scratch: Scratch, work: (pool: Pool, group: string) => Promise<void>): Promise<void> {
  const group = groupFor(scratch, disks);
  const pool = await openTestLvm(scratch, group);
  try {
    await work(pool, group);
  } finally {
    await pool.close();
  }
}

/** Where it is mounted, without udev: by the name that LVM makes a node for. */
function mountOutside(scratch: Scratch, name: string): string {
  const path = scratch.join(`outside-${name}`);
  mkdirSync(path, { recursive: true });
  shell(`lvm lvchange --activate y ${outsidePath(name).slice('/dev/'.length)} && mount ${outsidePath(name)} ${path}`);
  return path;
}

describe('logical volumes of others', () => {
  test('one with a filesystem becomes a volume, with all that is in it, and is the same again', async () => {
    using scratch = new Scratch('adoption');
    await withPool(scratch, async (pool) => {
      makeOutside('db');
      shell(`mkfs.ext4 -q ${outsidePath('db')}`);
      const path = mountOutside(scratch, 'db');
      writeFileSync(`${path}/file`, 'precious');
      await assert.rejects(adopt(pool, 'db'), /is in use by the mount at .*outside-db: stop the workload first/);
      assert.equal(tagsOutside('db'), 'mine');
      shell(`umount ${path}`);

      await adopt(pool, 'db');
      await adopt(pool, 'db');
      const record = await pool.find(idOf('db'));
      assert.deepEqual(record?.content, { type: 'mount', fsType: 'ext4' });
      assert.equal(record?.sizeBytes, 32n << 20n);
      assert.deepEqual(record?.adopted, { path: outsidePath('db') });
      await withMounted(pool, idOf('db'), scratch, (mounted) => {
        assert.equal(readFileSync(`${mounted}/file`, 'utf8'), 'precious');
        writeFileSync(`${mounted}/more`, 'more');
      });
      await pool.grow(idOf('db'), 64n << 20n);
    });
    await withPool(scratch, async (again) => {
      assert.equal((await again.find(idOf('db')))?.sizeBytes, 64n << 20n);
      makeOutside('other');
      await assert.rejects(
        again.release(idOf('db'), outsidePath('other')),
        /There is a logical volume .*outside-other/,
      );
      await assert.rejects(again.release(idOf('db'), '/dev/other/db'), InvalidArgument);
      await release(again, 'db');
      assert.equal(tagsOutside('db'), 'mine', 'his tag is there, and none of ours');
      const back = mountOutside(scratch, 'db');
      assert.equal(readFileSync(`${back}/file`, 'utf8') + readFileSync(`${back}/more`, 'utf8'), 'preciousmore');
      shell(`umount ${back}`);
    });
  });

  test('one without a filesystem becomes a block volume; a volume that was made here can be given away', async () => {
    using scratch = new Scratch('adoption');
    await withPool(scratch, async (pool, group) => {
      makeOutside('raw');
      await adopt(pool, 'raw');
      assert.deepEqual((await pool.find(idOf('raw')))?.content, { type: 'block' });
      await pool.create(volumeSpec('own', { content: { type: 'block' }, sizeBytes: 8n << 20n }));
      await assert.rejects(pool.release(idOf('own'), undefined), InvalidArgument);
      await pool.release(idOf('own'), `/dev/${group}/given`);
      assert.match(lvm('lvs', '--noheadings', '-o', 'lv_name,lv_tags', group), / given *\n/);
    });
  });

  test('what is no plain logical volume of nobody is refused, and stays as it is', async () => {
    using scratch = new Scratch('adoption');
    await withPool(scratch, async (pool, group) => {
      makeOutside('swap');
      shell(`mkswap ${outsidePath('swap')}`);
      makeOutside('origin');
      lvm('lvcreate', '--snapshot', '--size', '8m', '--name', 'outside-snapshot', `${group}/outside-origin`);
      makeOutside('readonly', '--permission', 'r');
      makeOutside('tagged', '--addtag', 'holdfast.volume');
      await pool.create(volumeSpec('own', { content: { type: 'block' }, sizeBytes: 8n << 20n }));
      const own = /vol-\S+/.exec(lvm('lvs', '--noheadings', '-o', 'lv_name', group))?.[0];
      const before = lvm('lvs', '-o', 'lv_name,lv_attr,lv_tags', group);
      const refused = [
        [outsidePath('swap'), FailedPrecondition, /it holds swap/],
        [outsidePath('origin'), FailedPrecondition, /a snapshot, or has snapshots/],
        [outsidePath('snapshot'), FailedPrecondition, /a snapshot, or has snapshots/],
        [outsidePath('readonly'), FailedPrecondition, /read-only/],
        [outsidePath('tagged'), FailedPrecondition, /tags of Holdfast/],
        [outsidePath('gone'), NotFound, /There is no logical volume/],
        [`/dev/${group}/holdfast-pool`, InvalidArgument, /names no logical volume/],
        [`/dev/${group}/${own}`, InvalidArgument, /names no logical volume/],
        [`/dev/${group}/../x`, InvalidArgument, /names no logical volume/],
        ['/dev/other/x', InvalidArgument, /is not in volume group .*: name a pool of other/],
      ] as const;
      for (const [path, kind, words] of refused) {
        await assert.rejects(adopt(pool, 'refused', path), (error) => {
          assert.ok(error instanceof kind, `${path}: ${error}`);
          assert.match(error.message, words);
          return true;
        });
      }
      assert.equal(lvm('lvs', '-o', 'lv_name,lv_attr,lv_tags', group), before);
      assert.equal(await pool.find(idOf('refused')), undefined);
    });
  });

  for (const [operation, { check, prepare, run }] of Object.entries(adoptionOperations)) {
    test(`T03: ${operation}: killed anywhere, it is one or the other, whole, and can be done again`, async (t) => {
      using scratch = new Scratch('killed');
      const group = groupFor(scratch, disks);
      const dataDirectory = scratch.join('data');
      const open = () => openTestLvm(scratch, group, { dataDirectory });
      const drive = (name: string, ...point: readonly string[]) =>
        spawnSync(process.execPath, [driver, 'linear', group, dataDirectory, operation, name, ...point], {
          encoding: 'utf8',
        });
      const prepared = async (name: string) => {
        const pool = await open();
        await prepare(pool, name);
        await pool.close();
      };
      await prepared('counted');
      const counted = drive('counted');
      assert.equal(counted.status, 0, counted.stderr);
      const steps: string[] = JSON.parse(counted.stdout.trim());
      t.diagnostic(steps.join(' '));
      for (const [index, step] of steps.entries()) {
        for (const when of ['before', 'after']) {
          const name = `${when}-${index}`;
          await prepared(name);
          const killed = drive(name, when, step);
          assert.equal(killed.signal, 'SIGKILL', `${when} ${step}: ${killed.stderr}`);
          const pool = await open();
          const isVolume = (await pool.find(idOf(name))) !== undefined;
          assert.equal(tagsOutside(name), isVolume ? undefined : 'mine', `${when} ${step}`);
          await run(pool, name);
          await check(pool, name);
          await pool.close();
        }
      }
    });
  }
});
