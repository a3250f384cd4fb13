import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, linkSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { readMountTable } from '../../src/kernel/mount/mount-table.ts';
import type { Pool, Seen } from '../../src/pool/pool.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { shortPath } from '../../src/volume/short-path.ts';
import { eventually } from '../support/eventually.ts';
import { mounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';
import { type PoolUnderTest, specsOf } from './pool-contract.ts';

const mebibyte = 1n << 20n;
const specOf = specsOf({ type: 'directory' });

/** What is mounted at a path, as the node tells it to pools. */
async function seenAt(pool: Pool, path: string): Promise<Seen> {
  const mount = (await readMountTable(pool.queue)).find(({ target }) => target === path);
  assert.ok(mount);
  return { device: mount.device, mount };
}

/** What kinds of pool must do whose volumes are directories. */
export function describeDirectories(kind: string, { open }: PoolUnderTest): void {
  describe(`${kind}: the contract of directories`, () => {
    test('T05: attach yields a directory that anybody may write to, and holds nothing', async () => {
      using scratch = new Scratch('directory');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('one'));
      for (const persistent of [true, false, true]) {
        const attachment = await pool.attach(id, { persistent });
        assert.equal(attachment.kind, 'directory');
        assert.equal(statSync(attachment.path).mode & 0o7777, 0o777);
        await attachment.release();
        await pool.detach(attachment);
      }
      assert.deepEqual(await pool.attached(id), []);
      await pool.close();
    });

    test('DV06: a mounted volume, or a directory of it, is in use: neither removed nor taken for another', async () => {
      using scratch = new Scratch('directory');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('busy'));
      const other = await pool.create(specOf('other'));
      {
        await using volume = await mounted(pool, id, scratch);
        assert.deepEqual(await pool.volumeSeen(await seenAt(pool, volume.path)), { id, isWhole: true });
        mkdirSync(join(volume.path, 'sub'));
        execFileSync('mount', ['--bind', join(volume.path, 'sub'), join(volume.path, 'sub')]);
        assert.deepEqual(await pool.volumeSeen(await seenAt(pool, join(volume.path, 'sub'))), { id, isWhole: false });
        execFileSync('umount', [join(volume.path, 'sub')]);
        assert.equal((await pool.attached(id)).length, 1);
        await assert.rejects(pool.remove(id), (error) => {
          assert.ok(error instanceof FailedPrecondition);
          assert.match(
            error.message,
            new RegExp(`is in use by the mount at ${shortPath(volume.path)}; end that first`),
          );
          return true;
        });
        assert.deepEqual(await pool.attached(other.id), []);
      }
      // A program of another test that just then took a mount namespace of its own is a holder, too, until it ends.
      await eventually(() => pool.remove(id));
      await pool.close();
    });

    test('CE03 CE04: grow never shrinks', async () => {
      using scratch = new Scratch('directory');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('grow'));
      assert.equal((await pool.grow(id, 128n * mebibyte)).sizeBytes, 128n * mebibyte);
      assert.equal((await pool.grow(id, 96n * mebibyte)).sizeBytes, 128n * mebibyte);
      await pool.close();
    });

    test('what a volume takes is told, once it has been counted, each file once however many names it has', async () => {
      using scratch = new Scratch('directory');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('counted'));
      {
        await using volume = await mounted(pool, id, scratch);
        writeFileSync(join(volume.path, 'file'), Buffer.alloc(8 << 20, 1));
        linkSync(join(volume.path, 'file'), join(volume.path, 'link'));
        execFileSync('sync', ['--file-system', volume.path]);
      }
      await pool.close();
      const again = await open(scratch);
      await eventually(async () => {
        const [usage] = (await again.usage()).volumes;
        const usedBytes = usage?.usedBytes ?? 0n;
        assert.ok(usedBytes >= 8n * mebibyte && usedBytes < 9n * mebibyte, `${usedBytes}`);
      });
      await again.close();
    });

    test('DV05: what is removed follows no link, and leaves nothing of its own', async () => {
      using scratch = new Scratch('directory');
      const outside = scratch.join('outside');
      mkdirSync(outside);
      writeFileSync(join(outside, 'precious'), '');
      const pool = await open(scratch);
      const { id } = await pool.create(specOf('tree'));
      const attachment = await pool.attach(id, { persistent: false });
      assert.equal(attachment.kind, 'directory');
      await attachment.release();
      mkdirSync(join(attachment.path, 'a', 'b'), { recursive: true });
      symlinkSync(outside, join(attachment.path, 'a', 'link'));
      execFileSync('mkfifo', [join(attachment.path, 'a', 'b', 'fifo')]);
      await pool.remove(id);
      await pool.purge();
      const root = join(attachment.path, '..', '..', '..');
      for (const name of ['volumes', 'trash', 'tmp']) assert.deepEqual(readdirSync(join(root, name)), [], name);
      assert.ok(existsSync(join(outside, 'precious')));
      await pool.close();
    });
  });
}
