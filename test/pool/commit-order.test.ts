import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, renameSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { DirectorySync } from '../../src/kernel/file/file.ts';
import { hasOneJournal } from '../../src/kernel/file/journal.ts';
import { CommitOrder } from '../../src/pool/records/commit-order.ts';
import { SnapshotFileDraft } from '../../src/pool/records/file-draft.ts';
import type { FileParts } from '../../src/pool/records/file-store.ts';
import { Layout } from '../../src/pool/records/layout.ts';
import { ReservedSpace } from '../../src/pool/records/reserved-space.ts';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import type { VolumeRecord } from '../../src/volume/record.ts';
import { attachDisk, flushesOf, sparseFile } from '../support/disk.ts';
import { openTestBackend, openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 2);

/** Mounts a new filesystem. @returns its directory */
function filesystem(scratch: Scratch, name: string, mkfs: string): string {
  const disk = sparseFile(scratch.join(`${name}.img`), 1024);
  const [program = '', ...options] = mkfs.split(' ');
  execFileSync(program, [...options, disk], { stdio: 'pipe' });
  mkdirSync(scratch.join(name));
  execFileSync('mount', ['-o', 'loop', disk, scratch.join(name)]);
  return scratch.join(name);
}

/** A filesystem whose disk takes no more writes where its log lies: a hole there in a file of a full tmpfs. */
function brokenLog(scratch: Scratch, type: 'xfs' | 'ext4'): string {
  const memory = scratch.join('memory');
  const root = scratch.join('disk');
  for (const directory of [memory, root]) mkdirSync(directory);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=400M', 'none', memory]);
  const disk = `${memory}/disk.img`;
  execFileSync('fallocate', ['-l', '320M', disk]);
  if (type === 'xfs') execFileSync('mkfs.xfs', ['-q', '-K', disk]);
  else execFileSync('mkfs.ext4', ['-q', '-E', 'nodiscard', disk]);
  execFileSync('mount', ['-o', 'loop', disk, root]);
  mkdirSync(`${root}/volumes`);
  execFileSync('sync', ['-f', root]);
  const { offsetBytes, lengthBytes } = type === 'xfs' ? logOfXfs(disk) : journalOfExt4(disk);
  execFileSync('fallocate', ['--punch-hole', '-o', `${offsetBytes}`, '-l', `${lengthBytes}`, disk]);
  const rest = openSync(`${memory}/rest`, 'w');
  try {
    for (;;) writeSync(rest, Buffer.alloc(4096));
  } catch {
    // It is full.
  } finally {
    closeSync(rest);
  }
  return root;
}

function logOfXfs(disk: string): { readonly offsetBytes: number; readonly lengthBytes: number } {
  const fields = ['logstart', 'logblocks', 'agblklog', 'agblocks'];
  const text = execFileSync('xfs_db', ['-r', '-c', 'sb 0', '-c', `p ${fields.join(' ')}`, disk], { encoding: 'utf8' });
  const [start = 0, blocks = 0, shift = 0, groupBlocks = 0] = fields.map((name) =>
    Number(new RegExp(`${name} = (\\d+)`).exec(text)?.[1]),
  );
  const block = (start >> shift) * groupBlocks + (start & ((1 << shift) - 1));
  return { offsetBytes: block * 4096, lengthBytes: blocks * 4096 };
}

function journalOfExt4(disk: string): { readonly offsetBytes: number; readonly lengthBytes: number } {
  const text = execFileSync('debugfs', ['-R', 'blocks <8>', disk], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const blocks = text.trim().split(/\s+/).map(Number);
  const size = Number(
    /Block size: +(\d+)/.exec(
      execFileSync('dumpe2fs', ['-h', disk], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
    )?.[1],
  );
  // Its superblock stays.
  const [first = 0] = blocks;
  return { offsetBytes: (first + 1) * size, lengthBytes: (blocks.length - 1) * size };
}

/** Requests to flush the cache of the disk below a directory so far. */
function flushesBelow(directory: string): number {
  return flushesOf(execFileSync('findmnt', ['-no', 'SOURCE', '--target', directory], { encoding: 'utf8' }).trim());
}

/** Whether the disk has all of a file's content: no page of it waits to be written. */
function isWrittenOut(path: string): boolean {
  const map = execFileSync('filefrag', ['-v', path], { encoding: 'utf8' });
  assert.match(map, /extents? found/);
  return !/delalloc|unknown_loc/.test(map);
}

describe('what is on the disk before the rename that commits it', () => {
  for (const [name, mkfs, expected] of [
    ['xfs', 'mkfs.xfs -q', true],
    ['ext4', 'mkfs.ext4 -q', true],
    ['no-journal', 'mkfs.ext4 -q -O ^has_journal', false],
    ['ext2', 'mkfs.ext2 -q', false],
    ['btrfs', 'mkfs.btrfs -q', false],
  ] as const) {
    test(`${name} has ${expected ? 'one journal' : 'no journal of everything'}`, async () => {
      using scratch = new Scratch('journal');
      assert.equal(await hasOneJournal(queue, filesystem(scratch, name, mkfs)), expected);
    });
  }

  test('an ext4 with its journal on another disk has no journal of everything', async () => {
    using scratch = new Scratch('journal');
    const journal = attachDisk(sparseFile(scratch.join('journal.img'), 64));
    execFileSync('mkfs.ext4', ['-q', '-b', '4096', '-O', 'journal_dev', journal], { stdio: 'pipe' });
    const root = filesystem(scratch, 'other', `mkfs.ext4 -q -b 4096 -J device=${journal}`);
    assert.equal(await hasOneJournal(queue, root), false);
  });

  test('a tmpfs has none', async () => assert.equal(await hasOneJournal(queue, '/dev/shm'), false));

  for (const mkfs of ['mkfs.xfs -q', 'mkfs.ext4 -q']) {
    test(`${mkfs}: content is written out, and the disk is flushed once, by the sync of the directory`, async () => {
      using scratch = new Scratch('order');
      const root = filesystem(scratch, 'disk', mkfs);
      const syncs = new DirectorySync();
      const order = new CommitOrder(queue, syncs, true);
      for (const name of ['drafts', 'volumes']) mkdirSync(`${root}/${name}`);
      await syncs.sync(queue, root);
      const before = flushesBelow(root);
      mkdirSync(`${root}/drafts/one`);
      await order.newFile(`${root}/drafts/one/record`, 'a record');
      assert.ok(isWrittenOut(`${root}/drafts/one/record`), 'the content is not on the disk');
      execFileSync('dd', ['if=/dev/urandom', `of=${root}/drafts/one/data`, 'bs=1M', 'count=4'], { stdio: 'pipe' });
      await order.content(`${root}/drafts/one/data`);
      assert.ok(isWrittenOut(`${root}/drafts/one/data`), 'the content is not on the disk');
      await order.names(`${root}/drafts/one`);
      assert.equal(flushesBelow(root), before, 'it was flushed');
      renameSync(`${root}/drafts/one`, `${root}/volumes/one`);
      await order.moved(`${root}/volumes`, `${root}/drafts`);
      assert.ok(flushesBelow(root) > before, 'it was not flushed');
    });
  }

  for (const type of ['xfs', 'ext4'] as const) {
    test(`${type}: names of a commit that failed are durable for nobody, also where another one waited for it`, async () => {
      using scratch = new Scratch('failed');
      const root = brokenLog(scratch, type);
      const syncs = new DirectorySync([`${root}/volumes`]);
      const name = async (text: string) => {
        mkdirSync(`${root}/volumes/${text}`);
        await syncs.sync(queue, `${root}/volumes`);
      };
      await assert.rejects(name('one'));
      // The journal has been given up: nothing waits to be written any more.
      const again = new DirectorySync([`${root}/volumes`]);
      await assert.rejects(again.sync(queue, `${root}/volumes`));
      await assert.rejects(syncs.sync(queue, `${root}/volumes`));
    });
  }

  test('where each directory must be synced, that of a snapshot is, after all its names are there', async () => {
    using scratch = new Scratch('names');
    const layout = new Layout(scratch.path);
    mkdirSync(layout.drafts);
    const synced: string[][] = [];
    class Watched extends CommitOrder {
      override async names(directory: string): Promise<void> {
        synced.push(readdirSync(directory).sort());
        await super.names(directory);
      }
    }
    class Draft extends SnapshotFileDraft<FileParts> {
      clone(): never {
        assert.fail();
      }
    }
    const syncs = new DirectorySync();
    const order = new Watched(queue, syncs, false);
    const id = snapshotIdFor('node', 's');
    const draft = new Draft({ queue, layout, syncs, reserve: new ReservedSpace(layout.reserve), order }, id);
    await draft.begin();
    writeFileSync(draft.data, 'content');
    const { content, id: sourceId, sizeBytes } = volumeSpec('source');
    const createdAt = new Date().toISOString();
    await draft.complete({
      id,
      name: 's',
      sourceId,
      sizeBytes,
      content,
      blockSizeBytes: 4096,
      parameters: {},
      createdAt,
    });
    assert.deepEqual(synced, [['data', 'snapshot.json']]);
  });

  test('a volume is made and deleted with a flush each, as one new name takes', async () => {
    using scratch = new Scratch('flushes');
    const root = filesystem(scratch, 'disk', 'mkfs.xfs -q');
    const pool = await openTestPool(scratch, { location: { type: 'directory', path: `${root}/pool` } });
    try {
      // The first of a size makes the template.
      await pool.create(volumeSpec('first'));
      const flushes = async (work: () => Promise<unknown>) => {
        const before = flushesBelow(root);
        await work();
        return flushesBelow(root) - before;
      };
      const syncs = new DirectorySync();
      const forOneName = await flushes(async () => {
        mkdirSync(`${root}/name`);
        await syncs.sync(queue, root);
      });
      const spec = volumeSpec('counted');
      const taken = {
        create: await flushes(() => pool.create(spec)),
        remove: await flushes(() => pool.remove(spec.id)),
      };
      assert.deepEqual(taken, { create: forOneName, remove: forOneName });
    } finally {
      await pool.close();
    }
  });
});

/** The directories that are synced with a record in them. */
class NotedSync extends DirectorySync {
  readonly paths: string[] = [];

  override sync(queue: DiskQueue, path: string): Promise<void> {
    if (existsSync(join(path, 'volume.json'))) this.paths.push(path);
    return super.sync(queue, path);
  }
}

test('where no journal keeps the order, the names in a draft are synced before it gets its place', async () => {
  using scratch = new Scratch('names');
  const pool = await openTestPool(scratch);
  const { id } = await pool.create(volumeSpec('source'));
  await pool.close();
  const syncs = new NotedSync();
  const backend = await openTestBackend(scratch, queue, syncs);
  const [source] = (await backend.records.read()).volumes.records;
  assert.equal(source?.id, id);
  for (const name of ['new', 'clone']) {
    const record: VolumeRecord = { ...source, id: volumeIdFor('node', 'test', name), name };
    const draft = backend.provisioner.draft(record.id, { isResumable: false });
    await draft.begin();
    if (name === 'new') await draft.make(record, { ...record, mkfsArguments: [] });
    else {
      await draft.clone({ kind: 'volume', record: source }).complete({ isAtRest: true });
      await draft.complete(record, record);
    }
    assert.ok(
      syncs.paths.some((path) => path.startsWith(scratch.join('pool', 'tmp', record.id))),
      name,
    );
  }
});
