/** Runs in the virtual machine: an NFS server that works, and cannot do what it is asked for. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { isErrno } from '../../../src/kernel/call/errno.ts';
import { FailedPrecondition, NotFound, ResourceExhausted } from '../../../src/volume/errors.ts';
import { specsOf } from '../../contract/pool-contract.ts';
import { openTestNfs, testExport } from '../../support/nfs-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { contextOf, mountOnNode, volumeWith } from './mounted.ts';

const specOf = specsOf({ type: 'directory' });
const { host: server, share } = testExport;

/** The filesystem of the export, on the server. */
const filesystem = '/srv/files';
const onServer = `${filesystem}${share}`;

const tellServer = (command: string) =>
  execFileSync('sh', ['-c', `${process.env['HOLDFAST_TEST_SERVER'] ?? assert.fail('no command')} ${command}`]);

/** Takes all space of the server's filesystem, also what is kept for root, until it is disposed of. */
function fillServer(): Disposable {
  const filler = join(filesystem, 'filler');
  mkdirSync(filler);
  let count = 0;
  for (let size = 1 << 30; size >= 4096; ) {
    try {
      execFileSync('fallocate', ['--length', `${size}`, join(filler, `${count++}`)], { stdio: 'pipe' });
    } catch {
      size /= 2;
    }
  }
  return { [Symbol.dispose]: () => rmSync(filler, { recursive: true }) };
}

describe('an NFS server', () => {
  test('that is full makes no volume, and deletes them; nothing is left of what failed', async () => {
    using scratch = new Scratch('nfs');
    const pool = await openTestNfs(scratch);
    const root = join(onServer, basename(scratch.path));
    const record = await pool.create(specOf('before'));
    const volume = volumeWith(contextOf(pool, record), record.id);
    const unmount = await mountOnNode(volume, scratch.join('m'));
    writeFileSync(scratch.join('m', 'kept'), 'kept', { flush: true });
    {
      using _full = fillServer();
      // A directory takes a block, which may be left over.
      await assert.rejects(
        async () => {
          for (let count = 0; count < 100; count++) await pool.create(specOf(`full-${count}`));
        },
        (error) => {
          assert.ok(error instanceof ResourceExhausted, `${error}`);
          assert.match(error.message, /cannot provision|has no room|is full/);
          return true;
        },
      );
      assert.throws(() => writeFileSync(scratch.join('m', 'large'), Buffer.alloc(1 << 20), { flush: true }), {
        code: 'ENOSPC',
      });
      await unmount();
      await (await mountOnNode(volume, scratch.join('m')))();
      await pool.remove(record.id);
      await pool.purge();
    }
    for (const { id } of await pool.list(undefined, undefined)) await pool.remove(id);
    await pool.purge();
    const again = await pool.create(specOf('after'));
    await pool.remove(again.id);
    await pool.purge();
    assert.deepEqual([readdirSync(join(root, 'volumes')), readdirSync(join(root, 'trash'))], [[], []]);
    await pool.close();
  });

  test('that is read-only has its volumes read, makes and deletes none, and goes on afterwards', async () => {
    using scratch = new Scratch('nfs');
    const pool = await openTestNfs(scratch);
    const record = await pool.create(specOf('one'));
    const volume = volumeWith(contextOf(pool, record), record.id);
    writeFileSync(join(onServer, basename(scratch.path), 'volumes', record.id, 'data', 'file'), 'written');
    tellServer('read-only');
    try {
      const says = /EROFS|read-only/i;
      await assert.rejects(pool.create(specOf('two')), says);
      await assert.rejects(pool.remove(record.id), says);
      const unmount = await mountOnNode(volume, scratch.join('m'));
      assert.equal(readFileSync(scratch.join('m', 'file'), 'utf8'), 'written');
      assert.throws(() => writeFileSync(scratch.join('m', 'other'), ''), { code: 'EROFS' });
      await unmount();
      await assert.rejects(openTestNfs(scratch, { path: 'other', dataDirectory: scratch.join('other') }), (error) => {
        assert.ok(error instanceof FailedPrecondition, `${error}`);
        assert.match(error.message, /may not write to/);
        return true;
      });
    } finally {
      tellServer('read-write');
    }
    const two = await pool.create(specOf('two'));
    for (const { id } of [record, two]) await pool.remove(id);
    await pool.purge();
    await pool.close();
  });

  test('that has deleted the directory of a volume in use says so, and the volume can be left', async () => {
    using scratch = new Scratch('nfs');
    const subDir = basename(scratch.path);
    mkdirSync(join(onServer, subDir));
    writeFileSync(join(onServer, subDir, 'file'), 'written');
    const volume = volumeWith({ server, share, subDir });
    const unmount = await mountOnNode(volume, scratch.join('m'));
    assert.equal(readFileSync(scratch.join('m', 'file'), 'utf8'), 'written');
    rmSync(join(onServer, subDir), { recursive: true });
    assert.throws(
      () => writeFileSync(scratch.join('m', 'other'), '', { flush: true }),
      (error) => {
        // The second one, if the kernel asks for the name first.
        assert.ok(isErrno(error, 'ESTALE', 'ENOENT'), `${error}`);
        return true;
      },
    );
    await unmount();
    await assert.rejects(mountOnNode(volume, scratch.join('m')), NotFound);
    mkdirSync(join(onServer, subDir));
    await (await mountOnNode(volume, scratch.join('m')))();
  });
});
